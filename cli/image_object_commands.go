package cli

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
)

// ImageShowCmd shows an image.
type ImageShowCmd struct {
	Image string `arg:"" help:"Name or id."`
}

// Run prints the image.
func (c *ImageShowCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	id, err := imageAnywhere(ctx, g, c.Image)
	if err != nil {
		return err
	}
	found, err := readImage(ctx, g, id)
	if err != nil {
		return err
	}
	return printObject(g, found)
}

// ImageSetCmd changes an image.
type ImageSetCmd struct {
	Image      string            `arg:"" help:"Name or id."`
	NewName    *string           `name:"name" api:"name" help:"New name." placeholder:"NAME"`
	Visibility *string           `api:"visibility" help:"Who may use the image: private, shared, community or public." placeholder:"WORD"`
	Hidden     *bool             `api:"os_hidden" help:"Lists leave the image out, or with --no-hidden show it." negatable:""`
	Protected  *bool             `api:"protected" help:"The image cannot be deleted." negatable:""`
	MinDisk    *int              `api:"min_disk" help:"Smallest root disk of a flavor, in GiB." placeholder:"GIB"`
	MinRAM     *int              `name:"min-ram" api:"min_ram" help:"Smallest memory of a flavor, in MiB." placeholder:"MIB"`
	Property   map[string]string `help:"Property to set; may be repeated." placeholder:"KEY=VALUE" mapsep:"none"`
	Unset      []string          `help:"Property to remove; may be repeated." placeholder:"KEY" sep:"none"`
	Tag        []string          `help:"Tag to add; may be repeated." placeholder:"TAG" sep:"none"`
	Untag      []string          `help:"Tag to remove; may be repeated." placeholder:"TAG" sep:"none"`
	Active     *bool             `name:"activate" help:"Its data can be used, or with --deactivate by administrators only." negatable:"deactivate"`
}

// Run changes the image and prints it.
func (c *ImageSetCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	set, err := attributesOf(ctx, g, c, "")
	if err != nil {
		return err
	}
	if len(set)+len(c.Property)+len(c.Unset)+len(c.Tag)+len(c.Untag) == 0 && c.Active == nil {
		return fault.New(fault.Invalid, "nothing to change: give a flag; --help shows them")
	}
	id, err := imageAnywhere(ctx, g, c.Image)
	if err != nil {
		return err
	}
	before, err := readImage(ctx, g, id)
	if err != nil {
		return err
	}
	path := "/v2/images/" + pathEscape(id)
	if patch := c.patch(set, before); len(patch) > 0 {
		if _, err := sendImage(ctx, g, http.MethodPatch, path, patch); err != nil {
			return err
		}
	}
	if c.Active != nil {
		action := map[bool]string{true: "reactivate", false: "deactivate"}[*c.Active]
		if _, err := sendImage(ctx, g, http.MethodPost, path+"/actions/"+action, nil); err != nil {
			return err
		}
	}
	after, err := readImage(ctx, g, id)
	if err != nil {
		return err
	}
	return printObject(g, after)
}

// patch returns the operations that change an image.
func (c *ImageSetCmd) patch(set map[string]any, before document) (patch []map[string]any) {
	pointer := strings.NewReplacer("~", "~0", "/", "~1")
	add := func(op, name string, value any) {
		one := map[string]any{"op": op, "path": "/" + pointer.Replace(name)}
		if op != "remove" {
			one["value"] = value
		}
		patch = append(patch, one)
	}
	for _, name := range sortedKeys(set) {
		add("replace", name, set[name])
	}
	for _, name := range sortedKeys(c.Property) {
		add("add", name, c.Property[name])
	}
	for _, name := range c.Unset {
		add("remove", name, nil)
	}
	if len(c.Tag)+len(c.Untag) > 0 {
		tags := slices.Clone(c.Tag)
		for _, tag := range listOf(before["tags"]) {
			if text, is := tag.(string); is && !slices.Contains(tags, text) {
				tags = append(tags, text)
			}
		}
		add("replace", "tags", append([]string{}, slices.DeleteFunc(tags, func(tag string) bool {
			return slices.Contains(c.Untag, tag)
		})...))
	}
	return patch
}

// ImageMemberCmd groups the commands on the projects that an image is shared with.
type ImageMemberCmd struct {
	List   imageMemberList   `cmd:"" help:"List the projects that an image is shared with."`
	Add    imageMemberAdd    `cmd:"" help:"Share an image with projects, which then accept or reject it."`
	Remove imageMemberRemove `cmd:"" help:"Share an image with projects no more. Their servers keep their disks."`
}

// imageMembers is the kind of the members of one image.
func imageMembers(id string) *kind {
	return &kind{noun: "member", service: imageService, path: "/v2/images/" + pathEscape(id) + "/members", all: "members",
		id: "member_id"}
}

// imageMemberList lists members.
type imageMemberList struct {
	Image string `arg:"" help:"Name or id."`
}

// Run prints the members.
func (c *imageMemberList) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	id, err := imageAnywhere(ctx, g, c.Image)
	if err != nil {
		return err
	}
	all, err := imageMembers(id).list(ctx, g, nil)
	if err != nil {
		return err
	}
	return printList(g, all, "Project", false, []column[document]{attribute("Project", "member_id"),
		attribute("Status", "status"), attribute("Updated", "updated_at")})
}

// imageMemberAdd shares an image.
type imageMemberAdd struct {
	Image    string   `arg:"" help:"Name or id."`
	Projects []string `arg:"" name:"project" help:"Ids of projects; with noauth2 and http_basic their names."`
}

// Run adds the members.
func (c *imageMemberAdd) Run(g *Globals) error {
	return changeMembers(g, c.Image, c.Projects, "shared", func(ctx context.Context, id, project string) error {
		_, err := sendImage(ctx, g, http.MethodPost, imageMembers(id).path, map[string]any{"member": project})
		return err
	})
}

// imageMemberRemove shares an image no more.
type imageMemberRemove struct {
	Image    string   `arg:"" help:"Name or id."`
	Projects []string `arg:"" name:"project" help:"Ids of projects; with noauth2 and http_basic their names."`
}

// Run removes the members.
func (c *imageMemberRemove) Run(g *Globals) error {
	return changeMembers(g, c.Image, c.Projects, "removed", func(ctx context.Context, id, project string) error {
		return imageMembers(id).remove(ctx, g, project)
	})
}

// changeMembers makes a change for each project, also after failures, and prints the results.
func changeMembers(g *Globals, image string, projects []string, done string,
	change func(ctx context.Context, id, project string) error) error {
	ctx, cancel := g.context()
	defer cancel()
	id, err := imageAnywhere(ctx, g, image)
	if err != nil {
		return err
	}
	return eachObject(g, "projects", projects, done, func(ctx context.Context, project string) (string, error) {
		return id, change(ctx, id, project)
	})
}

// ImageAnswerCmd accepts or rejects an image that another project shares.
type ImageAnswerCmd struct {
	Image   string `arg:"" help:"Name or id."`
	Project string `help:"The project that answers, for administrators. Default: one's own." placeholder:"PROJECT"`

	status string
}

// Run sends the answer and prints it.
func (c *ImageAnswerCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	id, err := imageAnywhere(ctx, g, c.Image)
	if err != nil {
		return err
	}
	members := imageMembers(id)
	if c.Project == "" {
		all, err := members.list(ctx, g, nil) // a member sees only itself
		switch {
		case err != nil:
			return err
		case len(all) == 0:
			return fault.New(fault.NotFound, "the image %s is not shared with this project", c.Image)
		case len(all) > 1:
			return fault.New(fault.Invalid, "the image %s has %d members: name one with --project", c.Image, len(all))
		}
		c.Project = all[0].text("member_id")
	}
	got, err := sendImage(ctx, g, http.MethodPut, members.pathOf(c.Project), map[string]any{"status": c.status})
	if err != nil {
		return err
	}
	return printObject(g, got)
}
