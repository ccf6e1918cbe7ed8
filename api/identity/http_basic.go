package identity

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/openberth/berth/fault"
)

// BasicChallenge is the value of the header WWW-Authenticate for responses with 401.
const BasicChallenge = `Basic realm="Berth"`

// BasicOptions configure HTTPBasic.
type BasicOptions struct {
	File     string            // [DEFAULT] http_basic_auth_user_file, in the format of Apache's htpasswd
	Roles    string            // [berth] roles_file, with lines NAME:PROJECT:ROLE,ROLE; "": none. It may be missing
	Admins   []string          // names of the accounts with the role admin
	Services []string          // names of the accounts with the role service
	Projects map[string]string // project by account; an account that is missing has a project of its own name
	Log      *slog.Logger      // nil: slog.Default()
}

const (
	passwordCacheTime = 5 * time.Minute  // how long a correct password is not hashed again
	wrongCacheTime    = 30 * time.Second // how long a wrong password is not
	userFileInterval  = time.Second      // how often the file is checked for changes of accounts that are accepted
	maxCredentials    = 1024             // bytes
)

// HTTPBasic authenticates callers by HTTP Basic authentication (RFC 7617) with the accounts of a file, as Ironic's
// auth_strategy http_basic does. It is safe for concurrent use.
//
// The project and the roles of an account are those of the roles file. Those of an account that is not in this file
// follow from the options: admin, service, or else member and reader. The id of a user is its name. A new account and
// a new password are accepted at once, other changes of a file are used within a second: a removed account, and a
// removed user file, are refused within this time. A file that is not valid is logged, and the last valid one remains
// in use.
type HTTPBasic struct {
	options  BasicOptions
	attempts *Attempts
	secret   [sha256.Size]byte // key of the cached credentials, so that they are useless in a memory dump
	correct  *cache[[]byte]    // the hash that the credentials matched
	wrong    *cache[[]byte]    // the hash that they did not match; nil: there was no account
	now      func() time.Time

	mu        sync.Mutex
	accounts  map[string][]byte // bcrypt hash by name
	grants    map[string]Grant  // by name; of the roles file
	read      fs.FileInfo       // of the user file when it was read; nil: it is missing
	rolesRead fs.FileInfo       // of the roles file; nil: there was none
	checked   time.Time
}

// NewHTTPBasic reads the files. It returns fault.Invalid with the file and the line for a file that cannot be used.
func NewHTTPBasic(o BasicOptions) (*HTTPBasic, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	b := &HTTPBasic{options: o, attempts: NewAttempts(), correct: newCache[[]byte](cacheSize),
		wrong: newCache[[]byte](cacheSize), now: time.Now}
	rand.Read(b.secret[:]) // never fails: crypto/rand ends the program instead
	var err error
	if b.read, err = os.Stat(o.File); err != nil {
		return nil, userFileFault(o.File, err)
	}
	if b.accounts, err = readUserFile(o.File); err != nil {
		return nil, err
	}
	if err := b.readRoles(); err != nil {
		return nil, err
	}
	b.checked = b.now()
	for _, name := range slices.Concat(o.Admins, o.Services) {
		if b.accounts[name] == nil {
			o.Log.Warn("account with a role is not in the user file", "account", name, "file", o.File)
		}
	}
	return b, nil
}

// Authenticate is an Authenticator.
func (b *HTTPBasic) Authenticate(r *http.Request) (Identity, error) {
	name, password, ok := r.BasicAuth()
	if !ok {
		return Identity{}, fault.New(fault.Forbidden,
			"the request has no name and password; send them by HTTP Basic authentication")
	}
	refused := fault.New(fault.Forbidden, "the name or the password is wrong")
	if len(name)+len(password) > maxCredentials {
		return Identity{}, refused
	}
	hash, _, grant := b.accountOf(name, userFileInterval)
	key := cacheKey{sum: sha256.Sum256([]byte(string(b.secret[:]) + name + "\x00" + password))}
	now := b.now()
	if known, found := b.correct.get(key, now); found && bytes.Equal(known, hash) {
		return b.identity(name, grant), nil
	}
	// An account that was made or changed just now is not refused: an agent ends when its password is wrong.
	hash, other, grant := b.accountOf(name, 0)
	if known, found := b.wrong.get(key, now); found && bytes.Equal(known, hash) {
		return Identity{}, refused
	}
	from := CallerOf(r, name)
	end, err := b.attempts.Begin(r.Context(), from, now)
	if err != nil {
		return Identity{}, err
	}
	defer end()
	compared := hash
	if hash == nil {
		compared = other // so that the time does not show which names exist
	}
	if err := bcrypt.CompareHashAndPassword(compared, []byte(password)); err != nil || hash == nil {
		b.wrong.put(key, hash, now.Add(wrongCacheTime))
		b.attempts.Fail(from, b.now())
		return Identity{}, refused
	}
	b.attempts.Succeed(from)
	b.correct.put(key, hash, now.Add(passwordCacheTime))
	return b.identity(name, grant), nil
}

// identity returns the caller with this name; grant is its entry in the roles file, without roles if it has none.
func (b *HTTPBasic) identity(name string, grant Grant) Identity {
	if len(grant.Roles) > 0 {
		return Identity{User: name, UserName: name, Project: grant.Project, ProjectName: grant.Project,
			Roles: implied(grant.Roles)}
	}
	id := Identity{User: name, UserName: name, Project: b.options.Projects[name]}
	if id.Project == "" {
		id.Project = name
	}
	id.ProjectName = id.Project
	if slices.Contains(b.options.Admins, name) {
		id.Roles = append(id.Roles, "admin")
	}
	if slices.Contains(b.options.Services, name) {
		id.Roles = append(id.Roles, "service")
	}
	if id.Roles == nil || id.IsAdmin() {
		id.Roles = append(id.Roles, "member", "reader")
	}
	return id
}

// accountOf returns the hash of an account, nil if there is no such account, the hash of any account, and what the
// roles file grants the account. It reads the files again if they have changed, unless it has looked within an
// interval.
func (b *HTTPBasic) accountOf(name string, interval time.Duration) (hash, other []byte, grant Grant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); now.Sub(b.checked) >= interval {
		b.checked = now
		if err := b.readRoles(); err != nil {
			b.options.Log.Error("roles file not usable, the last one remains in use", "error", err)
		}
		b.refresh()
	}
	for _, other = range b.accounts {
		break
	}
	return b.accounts[name], other, b.grants[name]
}

// readRoles reads the roles file if it has changed. The caller holds mu. It is called before the user file is read, so
// that an account is never accepted before its roles. A file that disappears is a fault: without it an account would
// have other roles than its administrator gave it.
func (b *HTTPBasic) readRoles() error {
	if b.options.Roles == "" {
		return nil
	}
	info, err := os.Stat(b.options.Roles)
	switch {
	case errors.Is(err, fs.ErrNotExist) && b.rolesRead == nil: // there was none, or its absence is logged already
		return nil
	case err != nil:
		b.rolesRead = nil
		return rolesFileFault(b.options.Roles, err)
	case unchanged(info, b.rolesRead):
		return nil
	}
	b.rolesRead = info
	text, err := os.ReadFile(b.options.Roles)
	if err != nil {
		return rolesFileFault(b.options.Roles, err)
	}
	grants, err := ParseRoles(b.options.Roles, text)
	if err == nil {
		b.grants = grants
	}
	return err
}

func rolesFileFault(file string, err error) error {
	return fault.New(fault.Invalid, "cannot read [berth] roles_file = %s: %w; restore it, or write the roles of "+
		"accounts with `berth user set`", file, err)
}

// unchanged reports whether a file is the one that was read.
func unchanged(info, read fs.FileInfo) bool {
	return read != nil && os.SameFile(info, read) && info.ModTime().Equal(read.ModTime()) && info.Size() == read.Size()
}

// refresh reads the user file if it has changed. The caller holds mu.
func (b *HTTPBasic) refresh() {
	info, err := os.Stat(b.options.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if b.read != nil {
			b.options.Log.Error("user file is missing, every account is refused", "file", b.options.File)
		}
		b.read, b.accounts = nil, nil
		return
	case err != nil:
		b.options.Log.Error("user file not read, the last one remains in use", "file", b.options.File, "error", err)
		return
	case unchanged(info, b.read):
		return
	}
	b.read = info
	accounts, err := readUserFile(b.options.File)
	if err != nil {
		b.options.Log.Error("user file not valid, the last one remains in use", "error", err)
		return
	}
	b.accounts = accounts
	b.options.Log.Info("user file read again", "file", b.options.File, "accounts", len(accounts))
}

func userFileFault(file string, err error) error {
	return fault.New(fault.Invalid, "cannot read [DEFAULT] http_basic_auth_user_file = %s: %w; "+
		"create it with `berth user add NAME --user-file %s`", file, err, file)
}

// readUserFile reads the accounts of a file.
func readUserFile(file string) (map[string][]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, userFileFault(file, err)
	}
	return ParseUsers(file, text)
}

var bcryptHash = regexp.MustCompile(`^\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}$`)

// ParseUsers parses the lines name:hash of a user file; it returns the hashes by name. Empty lines and lines that begin
// with # are ignored. It returns fault.Invalid with the line of the first error. Only bcrypt is accepted, because the
// other hashes of htpasswd can be reversed within seconds.
func ParseUsers(file string, text []byte) (map[string][]byte, error) {
	accounts := map[string][]byte{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		wrong := func(format string, args ...any) error {
			return fault.New(fault.Invalid, "%s:%d: "+format, append([]any{file, number}, args...)...)
		}
		name, hash, found := strings.Cut(line, ":")
		switch {
		case !found || name == "":
			return nil, wrong("the line is not NAME:HASH; write it with `htpasswd -B %s NAME`", file)
		case !bcryptHash.MatchString(hash):
			return nil, wrong("the password of %s is not hashed with bcrypt; write it with `htpasswd -B %s %s`", name, file,
				name)
		case accounts[name] != nil:
			return nil, wrong("account %s is in the file twice; remove one of the lines", name)
		}
		accounts[name] = []byte(hash)
	}
	if err := lines.Err(); err != nil {
		return nil, fault.New(fault.Invalid, "cannot read %s: %w", file, err)
	}
	return accounts, nil
}
