// Package postgres opens the gateway's connections to PostgreSQL 15 or later and keeps its schema: the pool with
// its codecs and time limits, our migrations and River's under one lock, the day partitions, and the one
// connection per process that listens for notifications.
//
// It owns the schemas' versions (gateway.schema_versions, and River's in the schema river) and refuses to hold
// any statement on a table of the domain: those stand in the package that owns the table. It never prints a
// password.
package postgres
