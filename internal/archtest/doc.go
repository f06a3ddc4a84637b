// Package archtest holds the rules of this code base, and the test that holds the code to them.
//
// A rule that a machine can check belongs here rather than in a review. The package reads Go files with go/parser
// and decides from syntax and imports alone: it builds nothing and needs no types. Each rule is a function from the
// parsed tree to violations, with a self-test that shows it failing; what may break a rule stands, with the reason, in
// one list (exceptions.go), and an exception that nothing needs any more is a violation itself.
//
// It refuses to judge taste: naming, comments and layout are for reviewers, gofmt and staticcheck.
package archtest
