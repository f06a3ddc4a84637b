//go:build !linux

package postgres

import "syscall"

// limitSilence does nothing: only Linux has TCP_USER_TIMEOUT, and elsewhere keep-alive has to do.
func limitSilence(_, _ string, _ syscall.RawConn) error { return nil }
