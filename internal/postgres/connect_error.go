package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ConnectError says why there is no connection, and what to do. Its text holds no password.
type ConnectError struct {
	Host   string // "db.example:5432", or a socket's directory
	Reason string // "connection refused"
	Hint   string // a sentence or two
	err    error
}

// Error is one line: what failed, why, what to do.
func (e *ConnectError) Error() string {
	return fmt.Sprintf("cannot reach postgres at %s (%s). %s", e.Host, e.Reason, e.Hint)
}

// Unwrap is the cause, for errors.Is; its text is pgx's.
func (e *ConnectError) Unwrap() error { return e.err }

// ErrURL says that a database URL can't be read. What is wrong with it is not told: the text of a parser may hold
// a part of the password.
var ErrURL = errors.New("the database URL cannot be read; it should look like postgres://USER:PASSWORD@HOST:5432/DATABASE, " +
	"with any of the characters : / ? # [ ] @ % in the password percent-encoded (@ is %40)")

// unfitError says that a server answered and can't be used.
type unfitError struct{ reason string }

func (e *unfitError) Error() string { return e.reason }

// unreadableURL keeps of a parser's error only whether a file that the URL names is missing.
func unreadableURL(err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return fmt.Errorf("the database URL names a file that cannot be read: %w", file)
	}
	return ErrURL
}

// explain turns an error of connecting into one for the operator. Others pass through.
func explain(config *pgx.ConnConfig, err error) error {
	reason, hint := diagnose(config, err)
	if reason == "" {
		return err
	}
	return &ConnectError{Host: address(config), Reason: reason, Hint: hint, err: err}
}

func address(config *pgx.ConnConfig) string {
	if filepath.IsAbs(config.Host) {
		return config.Host
	}
	return net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
}

// diagnose knows the ways in which connecting fails. Order matters: a timed-out look-up is a look-up.
func diagnose(config *pgx.ConnConfig, err error) (reason, hint string) {
	var unfit *unfitError
	var answer *pgconn.PgError
	var lookup *net.DNSError
	var connect *pgconn.ConnectError
	var timeout net.Error
	switch {
	case errors.As(err, &unfit):
		return unfit.reason, "Point the gateway at another server or database."
	case errors.As(err, &answer):
		return diagnoseAnswer(config, answer)
	case errors.As(err, &lookup):
		return "no such host", "Check the host's name in the database URL."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused", "Is it running? Start it, or correct the host and port in the database URL."
	case errors.Is(err, os.ErrNotExist):
		return "no such socket", "Is it running? Start it, or correct the host in the database URL."
	case errors.Is(err, os.ErrPermission):
		return "permission denied", "This user may not enter the socket's directory."
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the host", "Check the network and the host in the database URL."
	case isTLS(err):
		return "TLS: " + innermost(err).Error(), "Check sslmode, sslrootcert and the host's name in the database URL."
	case errors.Is(err, context.Canceled):
		return "", ""
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time", "Is a firewall in between? Check the host and port in the database URL."
	case errors.As(err, &connect):
		return innermost(err).Error(), "Is it a PostgreSQL server? Check the database URL."
	}
	return "", ""
}

// diagnoseAnswer is for servers that answered no.
func diagnoseAnswer(config *pgx.ConnConfig, answer *pgconn.PgError) (reason, hint string) {
	switch answer.Code {
	case "28P01", "28000": // invalid_password, invalid_authorization_specification
		return fmt.Sprintf("it refused the user %q", config.User), "Check the user and the password in the database URL, and the server's pg_hba.conf."
	case "3D000": // invalid_catalog_name
		return fmt.Sprintf("it has no database %q", config.Database), fmt.Sprintf("Create it: createdb %s", config.Database)
	case "42501": // insufficient_privilege
		return answer.Message, fmt.Sprintf("Grant it to %q, or use another user.", config.User)
	case "53300": // too_many_connections
		return "it has no connection left", "Raise its max_connections, or lower the size of the gateway's pool."
	case "57P03": // cannot_connect_now
		return "it is starting up or shutting down", "Try again in a moment."
	case "08P01": // protocol_violation: what PgBouncer says to a startup parameter that it does not know
		return answer.Message, "Is it PgBouncer? Give the gateway a direct URL, or have PgBouncer ignore the startup parameters that it names (ignore_startup_parameters)."
	}
	return answer.Message, "PostgreSQL's code is " + answer.Code + "."
}

func isTLS(err error) bool {
	var (
		record    tls.RecordHeaderError
		alert     tls.AlertError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	return errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &verify) ||
		errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}

// innermost is the first cause of an error: the last one in a chain, of several the first.
func innermost(err error) error {
	for {
		switch wrapped := err.(type) { //nolint:errorlint // walks the chain by itself
		case interface{ Unwrap() error }:
			next := wrapped.Unwrap()
			if next == nil {
				return err
			}
			err = next
		case interface{ Unwrap() []error }:
			if len(wrapped.Unwrap()) == 0 {
				return err
			}
			err = wrapped.Unwrap()[0]
		default:
			return err
		}
	}
}
