package console

import (
	"net/http"
	"net/url"

	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// classesContent is the content of the page of classes.
type classesContent struct {
	*view.Classes
	History *historyContent
}

// Link returns the address of the fleet view of the hosts of an aggregate that have a class. Without an aggregate it is
// that of all hosts that have it.
func (classesContent) Link(class resource.Class, aggregate string) string {
	find := string(class)
	if aggregate != "" {
		find += " " + aggregate
	}
	return "/fleet?" + url.Values{"q": {find}}.Encode()
}

// classes shows what the cloud has by class, and how that was used over time.
func (c *Console) classes(w http.ResponseWriter, r *http.Request, one *session) error {
	cloud, stale, err := one.cloud(r)
	if err != nil {
		return err
	}
	name := r.URL.Query().Get("aggregate")
	shown := cloud.ClassesOf(name)
	if shown == nil {
		return fault.New(fault.NotFound, "the cloud has no aggregate %s; all classes are at /classes", name)
	}
	p := one.page("Classes", "classes", cloud)
	history, err := readHistory(r, one.clients.Placement, shown)
	if err != nil {
		return err
	}
	p.Stale, p.Content = stale, classesContent{shown, history}
	c.render(w, http.StatusOK, "classes", p)
	return nil
}
