package archtest

import (
	"path"
	"slices"
	"strings"
)

// below says which packages of ours a package may import. An event travels from the left to the right, and an
// arrow never points back:
//
//	cmd → api → delivery → outbox; delivery → endpoint → egress, signing; endpoint → outbox; all → tenant
//
// Tests may import what they need: their package is another one.
func below() map[string][]string {
	return map[string][]string{
		"cmd/gateway": {"internal/api", "internal/delivery", "internal/egress", "internal/endpoint", "internal/idempotency", "internal/localpg",
			"internal/outbox", "internal/settings", "internal/signing", "internal/tenant", "sdk/go", "sdk/go/webhook"},
		"internal/idempotency":           {"internal/signing"},
		"internal/api":                   {"internal/idempotency", "internal/delivery", "internal/egress", "internal/endpoint", "internal/glob", "internal/outbox", "internal/signing", "internal/tenant"},
		"internal/delivery":              {"internal/batch", "internal/egress", "internal/endpoint", "internal/outbox", "internal/signing", "internal/tenant"},
		"internal/endpoint":              {"internal/egress", "internal/glob", "internal/outbox", "internal/signing", "internal/tenant"},
		"internal/outbox":                {"internal/batch", "internal/tenant"},
		"internal/tenant":                {"internal/glob", "internal/signing"},
		"internal/archtest":              {},
		"internal/batch":                 {},
		"internal/egress":                {},
		"internal/glob":                  {},
		"internal/localpg":               {},
		"internal/settings":              {},
		"internal/signing":               {},
		"internal/typeid":                {},
		"internal/postgres":              {"migrations"},
		"internal/postgres/postgrestest": {"internal/localpg", "internal/postgres", "migrations"},
		"migrations":                     {},
		".":                              {}, // the contract, embedded
		"sdk/go":                         {"sdk/go/internal/client", "sdk/go/webhook"},
		"sdk/go/internal/client":         {},
		"sdk/go/webhook":                 {},
	}
}

// everyone may import these, save the packages that stand apart from the gateway's own data.
var everyone = [...]string{"internal/postgres", "internal/typeid"}

// apart are packages that know nothing of the gateway's data.
var apart = [...]string{"internal/archtest", "internal/batch", "internal/egress", "internal/glob", "internal/localpg", "internal/postgres",
	"internal/settings", "internal/signing", "internal/typeid", "migrations"}

func importOrder(t *tree) []Violation {
	table := below()
	var found []Violation
	for _, f := range t.files {
		if f.test {
			continue
		}
		allowed, listed := table[f.dir]
		free := outside(f.dir)
		if !listed && !free {
			found = append(found, t.at(f, f.syntax.Package, "import-order", "package %s has no place in the import order: give it one", f.dir))
			continue
		}
		for _, spec := range f.syntax.Imports {
			target, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
			switch {
			case !ours || slices.Contains(allowed, target):
			case free && (strings.HasPrefix(target, "sdk/go") || !strings.HasPrefix(f.dir, "examples")):
			case slices.Contains(everyone[:], target) && !slices.Contains(apart[:], f.dir) && strings.HasPrefix(f.dir+"/", "internal/"):
			case slices.Contains(everyone[:], target) && f.dir == "cmd/gateway":
			default:
				found = append(found, t.at(f, spec.Pos(), "import-order", "%s may not import %s", f.dir, target))
			}
		}
	}
	return found
}

// outside are the folders that stand above everything: they run the gateway, and are no part of it. Examples are
// what users write, so they use nothing of ours but the SDK.
func outside(dir string) bool {
	for _, first := range []string{"bench", "chaos", "deploy", "docs", "examples", "interop"} {
		if dir == first || strings.HasPrefix(dir, first+"/") {
			return true
		}
	}
	for part := range strings.SplitSeq(dir, "/") {
		if strings.HasSuffix(part, "test") && part != "archtest" && part != "postgrestest" {
			return true
		}
	}
	return false
}

// homes says where a third-party package may be imported, by the beginning of its path. What is not here has no
// home yet, and is asked for one.
func homes() map[string][]string {
	sdk := "sdk/go/internal/client"
	return map[string][]string{
		"github.com/labstack/echo/":             {"internal/api"},
		"github.com/getkin/kin-openapi/":        {"internal/api"},
		"github.com/oapi-codegen/runtime":       {"internal/api", sdk},
		"github.com/oapi-codegen/nullable":      {"internal/api", sdk, "sdk/go"},
		"github.com/gobwas/glob":                {"internal/endpoint"},
		"github.com/sony/gobreaker/":            {"internal/delivery"},
		"github.com/golang-jwt/jwt/":            {"internal/tenant"},
		"go.jetify.com/typeid":                  {"internal/typeid"},
		"github.com/pressly/goose/":             {"internal/postgres"},
		"github.com/vgarvardt/pgx-google-uuid/": {"internal/postgres"},
		"github.com/spf13/":                     {"cmd/gateway"},
		"go.yaml.in/yaml/":                      {"cmd/gateway"},
		"github.com/riverqueue/river":           {"cmd/gateway", "internal/delivery", "internal/outbox", "internal/postgres"},
		"github.com/jackc/pgx/":                 {"cmd/gateway", "internal/delivery", "internal/endpoint", "internal/idempotency", "internal/localpg", "internal/outbox", "internal/postgres", "internal/postgres/postgrestest", "internal/tenant"},
		"github.com/google/uuid":                {"cmd/gateway", "internal/api", "internal/delivery", "internal/endpoint", "internal/idempotency", "internal/outbox", "internal/postgres", "internal/signing", "internal/tenant", "internal/typeid", "sdk/go"},
		"golang.org/x/":                         {"cmd/gateway", "internal/api", "internal/delivery", "internal/egress", "internal/localpg", "internal/postgres"},
		"go.uber.org/goleak":                    {"internal/postgres/postgrestest"},
	}
}

func thirdPartyHome(t *tree) []Violation {
	var found []Violation
	for _, f := range t.files {
		for _, spec := range f.syntax.Imports {
			target := strings.Trim(spec.Path.Value, `"`)
			first, _, _ := strings.Cut(target, "/")
			if !strings.Contains(first, ".") || strings.HasPrefix(target, module) {
				continue // the standard library, and ours
			}
			if f.dir == "sdk/go/webhook" {
				found = append(found, t.at(f, spec.Pos(), "third-party-home", "sdk/go/webhook needs the standard library alone, and imports %s", target))
			}
			if f.test || outside(f.dir) {
				continue
			}
			home, known := homeOf(target)
			switch {
			case !known:
				found = append(found, t.at(f, spec.Pos(), "third-party-home", "%s has no home: give it one", target))
			case !slices.Contains(home, f.dir):
				found = append(found, t.at(f, spec.Pos(), "third-party-home", "%s lives in %s, not in %s", target, strings.Join(home, ", "), f.dir))
			}
		}
	}
	return found
}

func homeOf(target string) ([]string, bool) {
	for prefix, home := range homes() {
		if strings.HasPrefix(target, prefix) {
			return home, true
		}
	}
	return nil, false
}

// vague are names that say nothing about what a package owns.
var vague = [...]string{"common", "helper", "helpers", "lib", "misc", "model", "models", "shared", "types", "util", "utils"}

func packageName(t *tree) []Violation {
	var found []Violation
	for dir, files := range t.packages() {
		name := strings.TrimSuffix(files[0].syntax.Name.Name, "_test")
		base := path.Base(dir)
		if slices.Contains(vague[:], name) || slices.Contains(vague[:], base) || strings.HasSuffix(name, "util") || strings.HasSuffix(name, "utils") {
			found = append(found, t.at(files[0], files[0].syntax.Name.Pos(), "package-name", "%q says nothing about what the package owns", name))
		}
	}
	return found
}
