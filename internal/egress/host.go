package egress

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// Limits of DNS, in bytes.
const (
	maxHost  = 253
	maxLabel = 63
)

// localNames are names of this machine, refused before anything is resolved: a resolver may answer them from
// a hosts file. Every name below "localhost" is one too (RFC 6761).
var localNames = []string{"localhost", "localhost.localdomain", "localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback"}

// metadataNames are how clouds name their metadata service; the addresses behind them are refused as well.
var metadataNames = []string{"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}

func isLocalName(host string) bool {
	return strings.HasSuffix(host, ".localhost") || slices.Contains(localNames, host)
}

func isMetadataName(host string) bool { return slices.Contains(metadataNames, host) }

// splitAuthority splits host[:port] and [address][:port]. The brackets stay on the host. It is not ok where
// the text has another shape; an absent port and an empty one ("host:") differ: the latter is not ok.
func splitAuthority(authority string) (host, port string, ok bool) {
	rest := authority
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return "", "", false
		}
		host, rest = authority[:end+1], authority[end+1:]
		if rest == "" {
			return host, "", true
		}
		port, ok = strings.CutPrefix(rest, ":")
		return host, port, ok && port != ""
	}
	host, port, found := strings.Cut(authority, ":")
	if host == "" || found && (port == "" || strings.Contains(port, ":")) {
		return "", "", false
	}
	return host, port, true
}

// canonicalHost gives a host the one spelling that is stored, compared, resolved and sent: an address, or a
// name in lower-case ASCII without a trailing dot. Exactly one of name and addr is set. Spellings that some
// resolver or library would read as an address, but that aren't one, are refused: what is judged must be
// what is dialled.
func canonicalHost(host string) (name string, addr netip.Addr, err *URLError) {
	if strings.HasPrefix(host, "[") {
		addr, parseErr := netip.ParseAddr(strings.TrimSuffix(host[1:], "]"))
		switch {
		case parseErr != nil || !addr.Is6() || !strings.HasSuffix(host, "]"):
			return "", netip.Addr{}, invalid("The brackets hold no IPv6 address.", "Write a name or an IPv4 address without brackets.")
		case addr.Zone() != "":
			return "", netip.Addr{}, invalid("The address has a zone.", "Use an address that is reachable from anywhere.")
		case addr.Is4In6():
			return "", netip.Addr{}, invalid("The address is IPv4 written as IPv6.", "Write it as four decimal numbers.")
		}
		return "", addr, nil
	}
	ascii := isASCII(host)
	if ascii {
		name = strings.ToLower(host)
	} else if name, err = nameFromUnicode(host); err != nil {
		return "", netip.Addr{}, err
	}
	name = strings.TrimSuffix(name, ".")
	if err := checkName(name); err != nil {
		return "", netip.Addr{}, err
	}
	if !endsInNumber(name) {
		return name, netip.Addr{}, nil
	}
	addr, parseErr := netip.ParseAddr(name)
	if parseErr != nil || !addr.Is4() || !ascii {
		return "", netip.Addr{}, invalid("The host is a number, but no plain IPv4 address.", "Write an IPv4 address as four decimal numbers without leading zeros.")
	}
	return "", addr, nil
}

// nameFromUnicode maps an international name to its ASCII form. The dots of other scripts are refused, though
// IDNA takes them: they are how an address slips past a check that ran before the mapping.
func nameFromUnicode(host string) (string, *URLError) {
	if strings.ContainsAny(host, "\u3002\uff0e\uff61") {
		return "", invalid("The host has a dot that is not a full stop.", `Write the dots as ".".`)
	}
	profile := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(true))
	name, err := profile.ToASCII(host)
	if err != nil {
		return "", invalid("The host is no valid international domain name.", "")
	}
	return name, nil
}

// checkName holds a lower-case ASCII name to the grammar of host names, underscores allowed, since such hosts
// exist. Labels that claim to be encoded Unicode must be that.
func checkName(name string) *URLError {
	if name == "" || len(name) > maxHost {
		return invalid("The host must have 1 to 253 characters.", "")
	}
	encoded := false
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel {
			return invalid("Each part of the host must have 1 to 63 characters.", "")
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return invalid("No part of the host may begin or end with a hyphen.", "")
		}
		for i := range len(label) {
			if c := label[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return invalid("The host has a character that no host name can have.", "")
			}
		}
		encoded = encoded || strings.HasPrefix(label, "xn--")
	}
	if encoded {
		profile := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false))
		if again, err := profile.ToASCII(name); err != nil || again != name {
			return invalid("The host is no valid international domain name.", "")
		}
	}
	return nil
}

// endsInNumber tells whether the last part of a name is a number, decimal or hexadecimal: the rule by which
// browsers read a host as an IPv4 address. No top-level domain is a number.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
