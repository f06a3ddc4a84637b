// Package glob owns the grammar of the globs that endpoints and tokens hold: which texts are globs, how one is
// written down, and whether one admits all that another does.
//
//	glob    = segment { separator segment }        at most 128 bytes
//	segment = "**" | name | [name] "*" [name]      "**" at most twice in a glob
//	name    = one or more of A-Z a-z 0-9 _ -
//
// The separator is "." in types and "/" in scopes, never both. "*" stands for any bytes of its segment, none
// included; a segment is never empty, so a segment "*" stands for exactly one segment. "**" stands for any number of
// segments, none included. The glob "*" is another spelling of "**".
//
// Everything else is refused, with the place: character classes, alternatives, escapes and a second star in a
// segment let whoever writes a glob choose how long matching takes.
//
// The package matches nothing (internal/endpoint does, with a library) and knows neither endpoint nor token.
package glob
