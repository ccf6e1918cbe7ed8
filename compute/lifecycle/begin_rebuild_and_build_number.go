package lifecycle

import (
	"github.com/openberth/berth/compute/flavor"
)

// beginRebuild starts a rebuild with the new image and name.
func beginRebuild(s Server, e ActionRequested) Server {
	if s.PreRebuild == nil {
		s.PreRebuild = &PreRebuild{Name: s.Name, Image: s.Image, ImageSnapshot: s.ImageSnapshot, Ask: s.Ask}
	}
	if e.FirstBoot != nil {
		if s.PreRebuild.FirstBoot == nil {
			before := s.FirstBoot
			changed := *s.PreRebuild
			changed.FirstBoot = &before
			s.PreRebuild = &changed
		}
		s.FirstBoot = *e.FirstBoot
	}
	s = endHold(s.WithDetails(e.Details.Applied(s.Details()), s.Updated))
	s.AdminPass = e.AdminPass
	s.Builds++
	s.Task = Rebuilding
	if e.Image != "" {
		if e.ImageSnapshot != nil {
			s.Ask = flavor.AskAfterRebuild(s.Flavor, s.SourceImage(), *e.ImageSnapshot, s.Ask)
		}
		s.Image, s.ImageSnapshot = e.Image, e.ImageSnapshot
	}
	if e.Name != "" {
		s.Name = e.Name
	}
	return s
}

// endHold makes the guest run from its disk if it is to be paused, suspended or rescued, because another one is built.
func endHold(s Server) Server {
	s.RescueImage = ""
	if s.Power.holds() {
		s.Power = On
	}
	return s
}

// recordBuilds sets Builds if the guest has been rebuilt more often than the record says, as after a restore from a
// backup. A rebuild in progress then gets the next number, because an agent ignores a build number that it has done.
func recordBuilds(s Server, g guestReport) Server {
	if g.build <= s.Builds {
		return s
	}
	if s.Builds = g.build; s.Task == Rebuilding {
		s.Builds++
	}
	return s
}
