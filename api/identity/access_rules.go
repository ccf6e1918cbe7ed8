package identity

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// accessRule is a request that an application credential may make.
type accessRule struct{ Service, Method, Path string }

var steps = regexp.MustCompile(`\{[^}]*\}|\*\*|\*|[^{*]+|\{`)

// matches reports whether the rule allows a request. In its path, {name} and * match one segment, ** any number.
func (a accessRule) matches(service, method, path string) bool {
	if a.Service != service || a.Method != method {
		return false
	}
	pattern := steps.ReplaceAllStringFunc(a.Path, func(part string) string {
		switch {
		case part == "**":
			return ".*"
		case part == "*" || strings.HasPrefix(part, "{"):
			return "[^/]+"
		}
		return regexp.QuoteMeta(part)
	})
	ok, err := regexp.MatchString("^(?s:"+pattern+")$", path)
	return ok && err == nil
}

// checkAccessRules checks a request against the access rules of the application credential of its token. A request
// that a service forwards was checked when that service received it. passedOn reports whether the request has the token
// of a service: that of another account, such as the caller's own, must not end the rules.
func (k *Keystone) checkAccessRules(rules *[]accessRule, r *http.Request, passedOn bool) error {
	if rules == nil {
		return nil
	}
	if k.opts.ServiceType == "" {
		k.log.Warn("access rules of a token not checked, request refused: [keystone_authtoken] service_type is not set")
		return forbidden("the token has access rules, and this service is not configured to check them")
	}
	if passedOn || slices.ContainsFunc(*rules, func(a accessRule) bool {
		return a.matches(k.opts.ServiceType, r.Method, r.URL.Path)
	}) {
		return nil
	}
	return forbidden("the access rules of the token's application credential do not have %s %s", r.Method, r.URL.Path)
}
