package identity

import (
	"bufio"
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
)

// Grant is what an account of http_basic may do: its project and its roles.
type Grant struct {
	Project string
	Roles   []string
}

// roleName is the form of a role, and of the name of a project.
var roleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// CheckProject returns fault.Invalid for the name of a project that a roles file cannot hold.
func CheckProject(name string) error {
	if !roleName.MatchString(name) {
		return fault.New(fault.Invalid, "%q is not the name of a project; use up to 64 letters, digits, dots, dashes "+
			"and underscores", name)
	}
	return nil
}

// ParseRoles parses the lines NAME:PROJECT:ROLE,ROLE of a roles file. Empty lines and lines that begin with # are
// ignored. It returns fault.Invalid with the line of the first error.
func ParseRoles(file string, text []byte) (map[string]Grant, error) {
	grants := map[string]Grant{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		wrong := func(format string, args ...any) error {
			return fault.New(fault.Invalid, "%s:%d: "+format, append([]any{file, number}, args...)...)
		}
		fields := strings.Split(line, ":")
		if len(fields) != 3 || fields[0] == "" || CheckProject(fields[1]) != nil {
			return nil, wrong("the line is not NAME:PROJECT:ROLE,ROLE; write it with `berth user set`")
		}
		name, roles := fields[0], strings.Split(fields[2], ",")
		if _, twice := grants[name]; twice {
			return nil, wrong("account %s is in the file twice; remove one of the lines", name)
		}
		for _, role := range roles {
			if !roleName.MatchString(role) {
				return nil, wrong("%q is not a role; write roles such as admin, member, reader or service", role)
			}
		}
		grants[name] = Grant{Project: fields[1], Roles: roles}
	}
	if err := lines.Err(); err != nil {
		return nil, fault.New(fault.Invalid, "cannot read %s: %w", file, err)
	}
	return grants, nil
}

// implied adds the roles that a role implies, as in Keystone: admin implies member, and member implies reader.
func implied(roles []string) []string {
	all := slices.Clone(roles)
	for _, of := range [][2]string{{"admin", "member"}, {"member", "reader"}} {
		if slices.Contains(all, of[0]) && !slices.Contains(all, of[1]) {
			all = append(all, of[1])
		}
	}
	return all
}
