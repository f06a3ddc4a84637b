// Package checker counts what became of a run: it holds what clients posted beside what receivers saw and what the API
// says, and counts every way in which the three can disagree.
//
// It is pure: it runs nothing and asks nobody. Whoever uses it brings the three journals; internal/gatewaytest keeps
// them. What it counts, and what a run may show of it:
//
//	lost           never  answered 2xx, and no receiver that wants it took it, though nothing says that it won't be
//	phantom        never  seen by a receiver or in the API, but not posted, or not wanted there
//	doubled        never  one post, several events
//	bad signature  never
//	altered        never  the data has other bytes, or the type is another
//	rows           never  the attempts' rows and the requests on the wire are not the same
//	cross-tenant   never  at the endpoint of another tenant, or in its part of the API
//	canary         never  something connected to where nothing may
//	unfinished     never  a delivery that is still open
//	duplicate      bound  taken by a receiver once more than once
//	not taken      bound  a delivery that ended without success, as the API says
//	heal           bound  from the last fault's end until the last that waited had arrived
package checker
