package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/userfile"
)

// userCmd groups the commands on the accounts of http_basic.
type userCmd struct {
	Add      userAddCmd      `cmd:"" help:"Add an account. Without --password-file it gets a random password, which is printed."`
	List     userListCmd     `cmd:"" help:"List accounts with their projects and roles."`
	Show     userShowCmd     `cmd:"" help:"Show an account."`
	Set      userSetCmd      `cmd:"" help:"Change the project and the roles of an account."`
	Password userPasswordCmd `cmd:"" help:"Change the password of an account."`
	Remove   userRemoveCmd   `cmd:"" help:"Remove accounts."`
}

// userFiles are the flags that name the user file.
type userFiles struct {
	ConfigFile []string `help:"Configuration file of the services, which names the user file. Default: ${default}, if it exists." default:"/etc/berth/berth.conf" placeholder:"FILE"`
	UserFile   string   `help:"The user file; the roles are in the file with .roles after this name. Default: that of the configuration." placeholder:"FILE"`
}

// packagedConfig is the default of --config-file, which may be missing.
const packagedConfig = "/etc/berth/berth.conf"

// files returns the user file and the roles file. It prints a note if services with this configuration do not use them.
func (u userFiles) files(s streams) (userfile.Files, error) {
	if u.UserFile != "" {
		return userfile.Files{Users: u.UserFile, Roles: u.UserFile + settings.RolesSuffix}, nil
	}
	named := u.ConfigFile
	if len(named) == 1 && named[0] == packagedConfig {
		if _, err := os.Stat(packagedConfig); errors.Is(err, fs.ErrNotExist) {
			named = nil
		}
	}
	conf, err := settings.Read(slog.New(slog.DiscardHandler), named...)
	if err != nil {
		return userfile.Files{}, settings.AllErrors(err, named...)
	}
	if strategy := conf.Strategy(settings.NoAuth2); strategy != settings.HTTPBasic && len(named) > 0 {
		fmt.Fprintf(s.log, "[api] auth_strategy is %s in %s: services with this configuration do not use the accounts\n",
			strategy, strings.Join(named, ", "))
	}
	return userfile.Files{Users: conf.Accounts.Basic.File, Roles: conf.Accounts.Basic.Roles}, nil
}

// newPassword is the flag for the password of an account.
type newPassword struct {
	PasswordFile string `help:"File whose first line is the password; - for standard input." placeholder:"FILE"`
}

// read returns the password of the file, or a random one.
func (p newPassword) read(g *cli.Globals) (password string, random bool, err error) {
	if p.PasswordFile == "" {
		return userfile.NewPassword(), true, nil
	}
	from := io.Reader(os.Stdin)
	if g.Stdin != nil {
		from = g.Stdin
	}
	if p.PasswordFile != "-" {
		file, err := os.Open(p.PasswordFile)
		if err != nil {
			return "", false, fault.New(fault.Invalid, "cannot read --password-file: %w", err)
		}
		defer file.Close()
		from = file
	}
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", false, fault.New(fault.Invalid, "cannot read --password-file: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), false, nil
}

// userResult is an account as the commands print it.
type userResult struct {
	userfile.User
	Password string `json:"password,omitempty"` // if it was generated
}

func printUser(g *cli.Globals, u userResult) error {
	rows := [][]string{{"name", u.Name}, {"project", dashed(u.Project)}, {"roles", dashed(strings.Join(u.Roles, ", "))}}
	if u.Password != "" {
		rows = append(rows, []string{"password", u.Password})
	}
	return cli.Print(g, u, []string{"Field", "Value"}, rows)
}

func dashed(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

type userAddCmd struct {
	Name    string   `arg:"" help:"Name of the account."`
	Project string   `help:"Project of the account. Default: its name." placeholder:"NAME"`
	Role    []string `help:"Role: admin, member, reader or service (for services and hosts); may be repeated. Default: ${default}." default:"member" enum:"admin,member,reader,service"`
	newPassword
	userFiles
}

// Run adds the account and prints it.
func (c *userAddCmd) Run(g *cli.Globals, s streams) error {
	files, err := c.files(s)
	if err != nil {
		return err
	}
	u := userfile.User{Name: c.Name, Project: c.Project, Roles: c.Role}
	if u.Project == "" {
		u.Project = u.Name
	}
	if err := identity.CheckProject(u.Project); err != nil {
		return err
	}
	password, random, err := c.read(g)
	if err != nil {
		return err
	}
	if err := files.Add(u, password); err != nil {
		return err
	}
	result := userResult{User: u}
	if random {
		result.Password = password
	}
	return printUser(g, result)
}

type userListCmd struct{ userFiles }

// Run prints the accounts.
func (c *userListCmd) Run(g *cli.Globals, s streams) error {
	files, err := c.files(s)
	if err != nil {
		return err
	}
	list, err := files.List()
	if err != nil {
		return err
	}
	if _, err := os.Stat(files.Users); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(s.log, "there is no user file %s; `berth user add` makes it\n", files.Users)
	}
	rows := [][]string{}
	for _, u := range list {
		rows = append(rows, []string{u.Name, dashed(u.Project), dashed(strings.Join(u.Roles, ", "))})
	}
	return cli.Print(g, list, []string{"Name", "Project", "Roles"}, rows)
}

type userShowCmd struct {
	Name string `arg:"" help:"Name of the account."`
	userFiles
}

// Run prints the account.
func (c *userShowCmd) Run(g *cli.Globals, s streams) error {
	files, err := c.files(s)
	if err != nil {
		return err
	}
	u, err := files.Show(c.Name)
	if err != nil {
		return err
	}
	return printUser(g, userResult{User: u})
}

type userSetCmd struct {
	Name    string   `arg:"" help:"Name of the account."`
	Project string   `help:"New project." placeholder:"NAME"`
	Role    []string `help:"New roles, instead of all others; may be repeated." enum:"admin,member,reader,service" placeholder:"ROLE"`
	userFiles
}

// Run changes the account and prints it.
func (c *userSetCmd) Run(g *cli.Globals, s streams) error {
	if c.Project == "" && len(c.Role) == 0 {
		return fault.New(fault.Invalid, "nothing to change: give --project or --role")
	}
	files, err := c.files(s)
	if err != nil {
		return err
	}
	u, err := files.Show(c.Name)
	if err != nil {
		return err
	}
	if c.Project != "" {
		u.Project = c.Project
	}
	if len(c.Role) > 0 {
		u.Roles = c.Role
	}
	if u.Project == "" || len(u.Roles) == 0 {
		return fault.New(fault.Invalid, "account %s has no entry in %s; give both --project and --role", u.Name,
			files.Roles)
	}
	if err := identity.CheckProject(u.Project); err != nil {
		return err
	}
	if err := files.Set(u); err != nil {
		return err
	}
	return printUser(g, userResult{User: u})
}

type userPasswordCmd struct {
	Name string `arg:"" help:"Name of the account."`
	newPassword
	userFiles
}

// Run changes the password, and prints it if it is random.
func (c *userPasswordCmd) Run(g *cli.Globals, s streams) error {
	files, err := c.files(s)
	if err != nil {
		return err
	}
	password, random, err := c.read(g)
	if err != nil {
		return err
	}
	if err := files.SetPassword(c.Name, password); err != nil {
		return err
	}
	u, err := files.Show(c.Name)
	if err != nil {
		return err
	}
	result := userResult{User: u}
	if random {
		result.Password = password
	}
	return printUser(g, result)
}

type userRemoveCmd struct {
	Names []string `arg:"" name:"name" help:"Names of the accounts."`
	userFiles
}

// Run removes the accounts.
func (c *userRemoveCmd) Run(s streams) error {
	files, err := c.files(s)
	if err != nil {
		return err
	}
	return files.Remove(c.Names...)
}
