package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/sallyport-dev/sallyport/internal/tenant"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// exchange is one request and its answer on the way through: what the log line tells of it.
type exchange struct {
	echo.Context
	requestID string
	op        *operation     // nil: there is no such route
	caller    *tenant.Caller // nil: none was asked for, or none was accepted
}

// panicked is a panic of a handler, with the stack it left.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// statusClientGone stands in the log for a request whose client did not wait for the answer.
const statusClientGone = 499

// begin is the outermost middleware: it names the request, bounds its time, answers for what went wrong within, and
// logs one line.
func (s *Server) begin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		x := &exchange{Context: c, requestID: requestID(c.Request().Header.Values("X-Request-Id"))}
		h := c.Response().Header()
		h.Set("X-Request-Id", x.requestID)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")

		started := time.Now()
		ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))

		err := protect(next, x)
		x.answer(err)
		s.logLine(x, err, time.Since(started))
		return nil
	}
}

// protect calls a handler and turns its panic into an error.
func protect(next echo.HandlerFunc, x *exchange) (err error) {
	defer func() {
		switch value := recover(); value {
		case nil:
		case http.ErrAbortHandler: // the way to cut an answer off
			panic(value)
		default:
			stack := make([]byte, 16<<10)
			err = &panicked{value, stack[:runtime.Stack(stack, false)]}
		}
	}()
	return next(x)
}

// answer writes the problem document of an error, unless an answer has begun.
func (x *exchange) answer(err error) {
	if err == nil || x.Response().Committed {
		return
	}
	// The client may be gone; there is nobody to tell.
	_ = writeProblem(x.Response(), refusalOf(err), x.requestID)
}

// logLine logs a request: its route and not its path, which may hold what belongs to the tenant alone.
func (s *Server) logLine(x *exchange, err error, took time.Duration) {
	if x.op != nil && x.op.ops {
		return // probes
	}
	status := x.Response().Status
	if errors.Is(err, context.Canceled) && x.Request().Context().Err() != nil {
		status = statusClientGone
	}
	attrs := []slog.Attr{
		slog.String("method", x.Request().Method),
		slog.Int("status", status),
		slog.Duration("duration", took),
		slog.String("request_id", x.requestID),
	}
	if x.op != nil {
		attrs = append(attrs, slog.String("route", x.op.template), slog.String("operation", x.op.id))
	}
	if x.caller != nil {
		attrs = append(attrs, slog.String("token_id", typeid.Format(typeid.Token, x.caller.Token)))
		if x.caller.Tenant != uuid.Nil {
			attrs = append(attrs, slog.String("tenant_id", typeid.Format(typeid.Tenant, x.caller.Tenant)))
		}
	}
	level := slog.LevelInfo
	switch {
	case status == statusClientGone:
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
		attrs = append(attrs, slog.String("error", errorText(err)))
	case err != nil:
		attrs = append(attrs, slog.String("code", string(refusalOf(err).code)))
	}
	s.cfg.Log.LogAttrs(context.WithoutCancel(x.Request().Context()), level, "request", attrs...)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// requestID keeps a caller's own name for a request, or makes one.
func requestID(given []string) string {
	if len(given) == 1 && validRequestID(given[0]) {
		return given[0]
	}
	return rand.Text()
}

func validRequestID(text string) bool {
	if text == "" || len(text) > 128 {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
