package postgres

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Away says whether an error means that the database could not be reached, or gave no answer in time, or takes no
// work now: whoever asked may ask again. An error about the statement itself is none of these.
func Away(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return awayCode(answer.Code)
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}

// awayCode judges an answer by its SQLSTATE.
func awayCode(code string) bool {
	switch code {
	case "25006", // read_only_sql_transaction: a standby, or a disk that is kept from filling up
		"40001", "40P01", // serialization_failure, deadlock_detected: after it was tried again
		"55P03",                            // lock_not_available: within lock_timeout
		"57014",                            // query_canceled: by statement_timeout
		"57P01", "57P02", "57P03", "57P05": // shutting down, crashed, starting up, idle for too long
		return true
	}
	class := code[:min(len(code), 2)]
	return class == "08" || class == "53" // connection_exception, insufficient_resources (a full disk, no connections)
}
