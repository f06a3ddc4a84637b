package tenant

import (
	"slices"

	"github.com/sallyport-dev/sallyport/internal/glob"
)

// tenantScopes is what a tenant's token may hold.
func tenantScopes() []string {
	return []string{"events:write", "events:read", "payloads:read", "endpoints:read", "endpoints:write", "endpoints:secret",
		"deliveries:read", "deliveries:retry", "stats:read", "stream:read", "portal:create", "tokens:write"}
}

// operatorScopes is what an operator's token may hold.
func operatorScopes() []string {
	return []string{"admin:read", "admin:tenants", "admin:jobs", "admin:events"}
}

// Roles returns the roles that a tenant's token can be given, or an operator's: names for scopes that go together.
func Roles(admin bool) []string {
	if admin {
		return []string{"operator"}
	}
	return []string{"publisher", "viewer", "support", "manager", "owner"}
}

// ScopesOf returns the scopes of a role, or nil if there is no such role.
//
// Support sees what happened to events and can have them sent again, but sees nothing of what is in them: that is
// payloads:read.
func ScopesOf(role string, admin bool) []string {
	viewer := []string{"events:read", "endpoints:read", "deliveries:read", "stats:read", "stream:read"}
	switch {
	case admin && role == "operator":
		return operatorScopes()
	case admin:
		return nil
	}
	switch role {
	case "publisher":
		return []string{"events:write"}
	case "viewer":
		return viewer
	case "support":
		return append(viewer, "deliveries:retry")
	case "manager":
		return append(viewer, "deliveries:retry", "payloads:read", "endpoints:write", "endpoints:secret", "portal:create")
	case "owner":
		return tenantScopes()
	}
	return nil
}

// covers says whether a list of event scopes covers another; nil stands for all.
func covers(held, wanted []string) bool {
	if held == nil {
		return true
	}
	if wanted == nil {
		wanted = []string{"**"}
	}
	outer, err := glob.ParseList(glob.Slash, held)
	if err != nil {
		return false
	}
	inner, err := glob.ParseList(glob.Slash, wanted)
	return err == nil && glob.Cover(outer, inner)
}

// first returns the first of wanted that is not among held.
func first(wanted, held []string) (int, bool) {
	i := slices.IndexFunc(wanted, func(s string) bool { return !slices.Contains(held, s) })
	return i, i >= 0
}
