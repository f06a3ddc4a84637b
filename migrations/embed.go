// Package migrations holds the schema of the gateway as numbered SQL files, embedded in the binary.
//
// Each file runs in one transaction under the lock that internal/postgres takes; code of the version
// before a migration and code of the version after it both run against the result.
package migrations

import "embed"

// FS holds the migration files, in goose's format.
//
//go:embed *.sql
var FS embed.FS
