// Package userfile changes the accounts of http_basic: the user file, in the format of Apache's htpasswd, and the roles
// file beside it. Services read both again when they change.
package userfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/crypto/bcrypt"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// Files are the two files of the accounts.
type Files struct{ Users, Roles string }

// User is one account. Its project and roles are empty if the roles file has none for it.
type User struct {
	Name    string   `json:"name"`
	Project string   `json:"project"`
	Roles   []string `json:"roles"`
}

// maxPassword is the longest password that bcrypt compares, in bytes.
const maxPassword = 72

// NewPassword returns a random password.
func NewPassword() string { return rand.Text() }

// List returns the accounts, sorted by name; none if there is no user file.
func (f Files) List() ([]User, error) {
	c, err := f.read()
	if err != nil {
		return nil, err
	}
	list := []User{}
	for _, name := range slices.Sorted(maps.Keys(c.hashes)) {
		list = append(list, c.user(name))
	}
	return list, nil
}

// Show returns an account; fault.NotFound if there is none of this name.
func (f Files) Show(name string) (User, error) {
	c, err := f.read()
	if err == nil {
		err = f.exists(c, name)
	}
	return c.user(name), err
}

// Matches reports whether an account exists and has this password.
func (f Files) Matches(name, password string) (bool, error) {
	c, err := f.read()
	if err != nil || c.hashes[name] == nil {
		return false, err
	}
	return bcrypt.CompareHashAndPassword(c.hashes[name], []byte(password)) == nil, nil
}

// Add adds an account. It returns fault.Conflict if there is one of this name.
func (f Files) Add(u User, password string) error {
	hash, err := hashed(u.Name, password)
	if err != nil {
		return err
	}
	return f.change(func(c *content) error {
		if c.hashes[u.Name] != nil {
			return fault.New(fault.Conflict, "account %s exists in %s; change it with `berth user set` or `berth user "+
				"password`", u.Name, f.Users)
		}
		c.users = replaced(c.users, u.Name, u.Name+":"+hash)
		c.roles = replaced(c.roles, u.Name, rolesLine(u))
		return nil
	})
}

// Set changes the project and the roles of an account.
func (f Files) Set(u User) error {
	return f.change(func(c *content) error {
		c.roles = replaced(c.roles, u.Name, rolesLine(u))
		return f.exists(*c, u.Name)
	})
}

// SetPassword changes the password of an account.
func (f Files) SetPassword(name, password string) error {
	hash, err := hashed(name, password)
	if err != nil {
		return err
	}
	return f.change(func(c *content) error {
		c.users = replaced(c.users, name, name+":"+hash)
		return f.exists(*c, name)
	})
}

// Remove removes accounts, or none if one of them does not exist. Of an account whose removal was interrupted it
// removes the roles.
func (f Files) Remove(names ...string) error {
	return f.change(func(c *content) error {
		for _, name := range names {
			if !hasLine(c.users, name) && !hasLine(c.roles, name) {
				return f.exists(*c, name)
			}
			c.users, c.roles = replaced(c.users, name, ""), replaced(c.roles, name, "")
		}
		return nil
	})
}

func (f Files) exists(c content, name string) error {
	if c.hashes[name] == nil {
		return fault.New(fault.NotFound, "there is no account %q in %s; `berth user list` shows all", name, f.Users)
	}
	return nil
}

// CheckName returns fault.Invalid for the name of an account that the files cannot hold.
func CheckName(name string) error {
	if name == "" || len(name) > 255 || strings.ContainsAny(name, ":#, \t\r\n\x00") {
		return fault.New(fault.Invalid, "%q is not valid as the name of an account; use up to 255 characters without "+
			"spaces, colons, commas and #", name)
	}
	return nil
}

// hashed checks the name and the password of an account, and returns the hash.
func hashed(name, password string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	switch {
	case password == "":
		return "", fault.New(fault.Invalid, "the password of %s is empty; give one", name)
	case len(password) > maxPassword:
		return "", fault.New(fault.Invalid, "the password of %s has more than %d bytes, which bcrypt ignores; use a "+
			"shorter one", name, maxPassword)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	return string(hash), err
}

func rolesLine(u User) string { return u.Name + ":" + u.Project + ":" + strings.Join(u.Roles, ",") }

// content is what the files have: their texts, and what these mean.
type content struct {
	users, roles string
	hashes       map[string][]byte
	grants       map[string]identity.Grant
}

func (c content) user(name string) User {
	grant := c.grants[name]
	return User{Name: name, Project: grant.Project, Roles: append([]string{}, grant.Roles...)}
}

// read reads both files. A file that is missing is empty.
func (f Files) read() (c content, err error) {
	if c.users, err = textOf(f.Users); err != nil {
		return c, err
	}
	if c.roles, err = textOf(f.Roles); err != nil {
		return c, err
	}
	return c, f.parse(&c)
}

// parse reads the meaning of the texts.
func (f Files) parse(c *content) (err error) {
	if c.hashes, err = identity.ParseUsers(f.Users, []byte(c.users)); err != nil {
		return err
	}
	c.grants, err = identity.ParseRoles(f.Roles, []byte(c.roles))
	return err
}

func textOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), fault.Wrap(fault.Unavailable, err)
}

// hasLine reports whether a text has a line of an account.
func hasLine(text, name string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), name+":") {
			return true
		}
	}
	return false
}

// replaced returns a text in which the line of an account is replaced, or appended; an empty line removes it. Other
// lines, such as comments, stay.
func replaced(text, name, line string) string {
	var out strings.Builder
	for old := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(old), name+":") {
			old = ""
			if line != "" {
				old, line = line+"\n", ""
			}
		}
		out.WriteString(old)
		if old != "" && !strings.HasSuffix(old, "\n") {
			out.WriteString("\n")
		}
	}
	if line != "" {
		out.WriteString(line + "\n")
	}
	return out.String()
}

// change changes the files under a lock of their directory. The roles are written first, so that no service accepts an
// account before its roles; those of an account that does not exist have no effect. When an account is removed, the
// user file is written first.
func (f Files) change(edit func(*content) error) error {
	lock, err := lockDirectory(filepath.Dir(f.Users))
	if err != nil {
		return err
	}
	defer lock.Close() // and so unlocks it
	before, err := f.read()
	if err != nil {
		return err
	}
	after := before
	if err := edit(&after); err != nil {
		return err
	}
	if err := f.parse(&after); err != nil { // of a project or a role that the file cannot hold
		return fault.New(fault.Invalid, "the accounts are not changed: %w", err)
	}
	writes := []struct{ path, before, after string }{{f.Roles, before.roles, after.roles},
		{f.Users, before.users, after.users}}
	if strings.Count(after.users, "\n") < strings.Count(before.users, "\n") {
		slices.Reverse(writes)
	}
	for _, w := range writes {
		if w.before == w.after {
			continue
		}
		// A new file may be read by the group of its directory, which in /etc/berth of the packages is that of the services.
		if err := datafile.ReplaceKept(w.path, []byte(w.after), 0o640); err != nil {
			return fault.New(fault.Unavailable, "cannot write %s: %w; run the command as the owner of the file", w.path,
				err)
		}
	}
	return nil
}

// lockDirectory waits for the lock of a directory.
func lockDirectory(dir string) (*os.File, error) {
	lock, err := os.Open(dir)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot open the directory of the user file: %w; create it", err)
	}
	for {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fault.New(fault.Unavailable, "cannot lock %s: %w", dir, err), lock.Close())
	}
	return lock, nil
}
