//go:build unix

package egress

import (
	"errors"
	"io"
	"syscall"
)

// readNow reads what has arrived, without waiting: errIdle if nothing has. Sockets of the net package don't
// block.
func readNow(raw syscall.RawConn, p []byte) (n int, err error) {
	outer := raw.Read(func(fd uintptr) bool {
		for {
			n, err = syscall.Read(int(fd), p)
			if !errors.Is(err, syscall.EINTR) {
				return true
			}
		}
	})
	switch {
	case outer != nil:
		return 0, outer
	case errors.Is(err, syscall.EAGAIN):
		return 0, errIdle
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
