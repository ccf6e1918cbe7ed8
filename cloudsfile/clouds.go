// Package cloudsfile writes clouds into a clouds.yaml, the file from which `berth`, `openstack` and gophercloud read
// accounts and addresses. The clouds of others, and comments, stay in the file.
package cloudsfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// Option is an option of a cloud. The options of the account are in its part auth.
type Option struct{ Name, Value string }

// Cloud is an entry of clouds.yaml. Options without a value are left out.
type Cloud struct {
	Name    string
	Type    string   // auth_type
	Auth    []Option // of the account
	Options []Option // others, such as compute_endpoint_override and cacert
}

// node returns the entry as YAML.
func (c Cloud) node() *yaml.Node {
	auth, whole := &yaml.Node{Kind: yaml.MappingNode}, &yaml.Node{Kind: yaml.MappingNode}
	set := func(to *yaml.Node, options ...Option) {
		for _, o := range options {
			if o.Value != "" {
				to.Content = append(to.Content, word(o.Name), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: o.Value})
			}
		}
	}
	set(auth, c.Auth...)
	set(whole, Option{"auth_type", c.Type})
	whole.Content = append(whole.Content, word("auth"), auth)
	set(whole, c.Options...)
	return whole
}

// secret reports whether the entry has a password.
func (c Cloud) secret() bool {
	return slices.ContainsFunc(c.Auth, func(o Option) bool { return o.Name == "password" && o.Value != "" })
}

func word(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// Text returns a clouds.yaml with these clouds.
func Text(clouds ...Cloud) (string, error) { return merged(nil, clouds, nil) }

// Merge replaces or adds clouds in the file at path, which is created if it does not exist. It returns whether the file
// has changed. A file that gets a password is readable by its owner only; otherwise the mode of an existing one stays.
func Merge(path string, clouds ...Cloud) (changed bool, err error) { return change(path, clouds, nil) }

// Remove removes clouds from the file at path, and the file if it has no other content. It returns whether the file has
// changed.
func Remove(path string, names ...string) (changed bool, err error) { return change(path, nil, names) }

func change(path string, clouds []Cloud, remove []string) (bool, error) {
	old, err := os.ReadFile(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing && len(clouds) == 0 {
		return false, nil
	}
	if err != nil && !missing {
		return false, fault.Wrap(fault.Unavailable, err)
	}
	text, err := merged(old, clouds, remove)
	if err != nil {
		return false, fault.New(fault.Invalid, "%s is not changed: %w", path, err)
	}
	if text == string(old) {
		return false, nil
	}
	if text == "" {
		return true, fault.Wrap(fault.Unavailable, os.Remove(path))
	}
	if !missing && slices.ContainsFunc(clouds, Cloud.secret) {
		if _, err := datafile.Narrow(path); err != nil {
			return false, err
		}
	}
	return true, fault.Wrap(fault.Unavailable, datafile.ReplaceKept(path, []byte(text), 0o600))
}

// merged returns the text of a file with changed clouds; empty if nothing remains.
func merged(old []byte, clouds []Cloud, remove []string) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(old, &doc); err != nil {
		return "", errors.New("it is not valid YAML; correct it, or move it away") // the text may have a password
	}
	if doc.Kind == 0 || len(doc.Content) == 0 {
		doc = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	root := doc.Content[0]
	all := child(root, "clouds")
	if all == nil {
		all = &yaml.Node{Kind: yaml.MappingNode}
		if root.Kind == yaml.MappingNode {
			root.Content = append(root.Content, word("clouds"), all)
		}
	}
	if all.Kind == yaml.ScalarNode && all.Tag == "!!null" {
		*all = yaml.Node{Kind: yaml.MappingNode}
	}
	if root.Kind != yaml.MappingNode || all.Kind != yaml.MappingNode {
		return "", errors.New("it is not of the form `clouds: {NAME: {auth: {…}}}`; correct it, or move it away")
	}
	var before bytes.Buffer
	if err := encode(&before, &doc); err != nil {
		return "", err
	}
	for _, name := range remove {
		without(all, name)
	}
	for _, c := range clouds {
		if at := child(all, c.Name); at != nil {
			*at = *c.node()
		} else {
			all.Content = append(all.Content, word(c.Name), c.node())
		}
	}
	if len(all.Content) == 0 && len(remove) > 0 {
		if without(root, "clouds"); len(root.Content) == 0 {
			return "", nil
		}
	}
	var after bytes.Buffer
	if err := encode(&after, &doc); err != nil {
		return "", err
	}
	if bytes.Equal(before.Bytes(), after.Bytes()) { // the form of the file stays
		return string(old), nil
	}
	return after.String(), nil
}

func encode(to *bytes.Buffer, doc *yaml.Node) error {
	e := yaml.NewEncoder(to)
	e.SetIndent(2)
	return errors.Join(e.Encode(doc), e.Close())
}

// child returns the value of a key of a mapping; nil if there is none.
func child(of *yaml.Node, key string) *yaml.Node {
	if of.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(of.Content); i += 2 {
		if of.Content[i].Value == key {
			return of.Content[i+1]
		}
	}
	return nil
}

// without removes a key of a mapping.
func without(of *yaml.Node, key string) {
	for i := 0; i+1 < len(of.Content); i += 2 {
		if of.Content[i].Value == key {
			of.Content = append(of.Content[:i:i], of.Content[i+2:]...)
			return
		}
	}
}

// Read returns the options of a cloud in the file at path, with those of its part auth; found is false if the file or
// the cloud does not exist.
func Read(path, name string) (options map[string]string, found bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fault.Wrap(fault.Unavailable, err)
	}
	var doc struct{ Clouds map[string]map[string]any }
	if yaml.Unmarshal(text, &doc) != nil { // its error may contain a password
		return nil, false, fault.New(fault.Invalid, "%s is not a clouds.yaml; correct it, or move it away", path)
	}
	whole, found := doc.Clouds[name]
	options = map[string]string{}
	auth, _ := whole["auth"].(map[string]any)
	for _, from := range []map[string]any{whole, auth} {
		for option, value := range from {
			if word, ok := value.(string); ok {
				options[option] = word
			}
		}
	}
	return options, found, nil
}
