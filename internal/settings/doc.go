// Package settings owns the one list of the gateway's settings: their names, types, defaults and what they are
// for, where each value came from, and the rules that they must hold against each other.
//
// One table (table.go) drives the flags, the environment, the file, `gateway config print` and docs/settings.md,
// so a setting cannot be in one of them and not in another. A value is taken from the first that has it:
//
//	what the command fixes > flag > environment (GATEWAY_X) > file (x in gateway.yaml) > default
//
// The package decides and does no I/O of its own: the caller hands it the flags, the environment, the parsed file
// and a way to read the files that secrets lie in. It refuses to guess: an unknown name, a value that does not
// parse and two values that contradict each other are each a Problem, and all of them are reported at once.
// Only cmd reads settings; every other package is given its own small Config.
package settings
