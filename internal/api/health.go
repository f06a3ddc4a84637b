package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// probeTimeout bounds one check of readiness: an orchestrator asks every few seconds and waits about as long.
const probeTimeout = 2 * time.Second

// errDraining is what the check of that name says.
var errDraining = errors.New("the process is shutting down")

// GetLivez says that the process is alive.
func (c *call) GetLivez(context.Context, GetLivezRequestObject) (GetLivezResponseObject, error) {
	return GetLivez200JSONResponse{Body: Health{Status: HealthStatusOk}}, nil
}

// GetHealthz says the same.
func (c *call) GetHealthz(context.Context, GetHealthzRequestObject) (GetHealthzResponseObject, error) {
	return GetHealthz200JSONResponse{Body: Health{Status: HealthStatusOk}}, nil
}

// GetReadyz says whether the process should get requests.
func (c *call) GetReadyz(ctx context.Context, _ GetReadyzRequestObject) (GetReadyzResponseObject, error) {
	errs := c.probe(ctx)
	return readiness{checks: c.cfg.Checks, errs: errs, verbose: c.verbose()}, nil
}

// verbose says whether all checks are wanted: ?verbose, or with a value that means yes.
func (c *call) verbose() bool {
	values, ok := c.query["verbose"]
	return ok && (values[0] == "" || values[0] == "1" || values[0] == "true")
}

// probe runs all checks at once. The last error is that of draining.
func (s *Server) probe(ctx context.Context) []error {
	errs := make([]error, len(s.cfg.Checks)+1)
	var running sync.WaitGroup
	for i, check := range s.cfg.Checks {
		running.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			errs[i] = check.Probe(ctx)
		})
	}
	running.Wait()
	if s.draining.Load() {
		errs[len(errs)-1] = errDraining
	}
	return errs
}

// readiness is the answer to a probe.
type readiness struct {
	checks  []Check
	errs    []error
	verbose bool
}

// VisitGetReadyzResponse writes the answer.
func (r readiness) VisitGetReadyzResponse(w http.ResponseWriter) error {
	body, status := Health{Status: HealthStatusOk}, http.StatusOK
	var told []HealthCheck
	for i, err := range r.errs {
		check := HealthCheck{Name: "accepting", Ok: err == nil}
		if i < len(r.checks) {
			check.Name = r.checks[i].Name
		}
		if err != nil {
			detail := err.Error()
			check.Detail = &detail
			body.Status, status = HealthStatusFailing, http.StatusServiceUnavailable
		}
		if err != nil || r.verbose {
			told = append(told, check)
		}
	}
	if told != nil {
		body.Checks = &told
	}
	return writeJSON(w, status, body)
}
