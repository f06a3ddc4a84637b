package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitSilence bounds the time that sent bytes may stay unacknowledged, which keep-alive does not.
func limitSilence(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	}); err != nil {
		return err
	}
	return failed
}
