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
	Admins   []string          // names of the accounts with the role admin
	Services []string          // names of the accounts with the role service
	Projects map[string]string // project by account; an account that is missing has a project of its own name
	Log      *slog.Logger      // nil: slog.Default()
}

const (
	passwordCacheTime = 5 * time.Minute  // how long a correct password is not hashed again
	wrongCacheTime    = 30 * time.Second // how long a wrong password is not
	userFileInterval  = time.Second      // how often the file is checked for changes
	maxCredentials    = 1024             // bytes
)

// HTTPBasic authenticates callers by HTTP Basic authentication (RFC 7617) with the accounts of a file, as Ironic's
// auth_strategy http_basic does. It is safe for concurrent use.
//
// The roles of an account follow from the options: admin, service, or else member and reader. The id of a user is its
// name. A change of the file is used within a second; a file that is not valid is logged, and the last valid one
// remains in use. A removed account, and a removed file, are refused within the same time.
type HTTPBasic struct {
	options  BasicOptions
	attempts *attempts
	secret   [sha256.Size]byte // key of the cached credentials, so that they are useless in a memory dump
	correct  *cache[[]byte]    // the hash that the credentials matched
	wrong    *cache[[]byte]    // the hash that they did not match; nil: there was no account
	now      func() time.Time

	mu       sync.Mutex
	accounts map[string][]byte // bcrypt hash by name
	read     fs.FileInfo       // of the file when it was read; nil: it is missing
	checked  time.Time
}

// NewHTTPBasic reads the file. It returns fault.Invalid with the file and the line for a file that cannot be used.
func NewHTTPBasic(o BasicOptions) (*HTTPBasic, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	b := &HTTPBasic{options: o, attempts: newAttempts(), correct: newCache[[]byte](cacheSize),
		wrong: newCache[[]byte](cacheSize), now: time.Now}
	rand.Read(b.secret[:]) // never fails: crypto/rand ends the program instead
	var err error
	if b.read, err = os.Stat(o.File); err != nil {
		return nil, userFileFault(o.File, err)
	}
	if b.accounts, err = readUserFile(o.File); err != nil {
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
	hash, other := b.hashOf(name)
	key := cacheKey{sum: sha256.Sum256([]byte(string(b.secret[:]) + name + "\x00" + password))}
	now := b.now()
	if known, found := b.correct.get(key, now); found && bytes.Equal(known, hash) {
		return b.identity(name), nil
	}
	if known, found := b.wrong.get(key, now); found && bytes.Equal(known, hash) {
		return Identity{}, refused
	}
	from := callerOf(r, name)
	end, err := b.attempts.begin(r.Context(), from, now)
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
		b.attempts.fail(from, b.now())
		return Identity{}, refused
	}
	b.attempts.succeed(from)
	b.correct.put(key, hash, now.Add(passwordCacheTime))
	return b.identity(name), nil
}

// identity returns the caller with this name.
func (b *HTTPBasic) identity(name string) Identity {
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

// hashOf returns the hash of an account, nil if there is no such account, and the hash of any account. It reads the
// file again if it has changed.
func (b *HTTPBasic) hashOf(name string) (hash, other []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); now.Sub(b.checked) >= userFileInterval {
		b.checked = now
		b.refresh()
	}
	for _, other = range b.accounts {
		break
	}
	return b.accounts[name], other
}

// refresh reads the file if it has changed. The caller holds mu.
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
	case b.read != nil && os.SameFile(info, b.read) && info.ModTime().Equal(b.read.ModTime()) &&
		info.Size() == b.read.Size():
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
		"create it with `htpasswd -B -c %s NAME`", file, err, file)
}

// readUserFile reads the accounts of a file.
func readUserFile(file string) (map[string][]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, userFileFault(file, err)
	}
	return parseUserFile(file, text)
}

var bcryptHash = regexp.MustCompile(`^\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}$`)

// parseUserFile parses lines of the form name:hash. Empty lines and lines that begin with # are ignored. It returns
// fault.Invalid with the line of the first error. Only bcrypt is accepted, because the other hashes of htpasswd can be
// reversed within seconds.
func parseUserFile(file string, text []byte) (map[string][]byte, error) {
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
