package heal

import (
	"encoding/json"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
)

// undoFile is the content of an undo file.
type undoFile struct {
	Version int            `json:"version"`
	Made    time.Time      `json:"made"`
	Changes []fleet.Change `json:"changes"`
}

const undoVersion = 1

// UndoFile returns the content of a file with which `berth audit --undo` reverts a plan, which must be complete.
func UndoFile(now time.Time, plan []fleet.Change) ([]byte, error) {
	text, err := json.MarshalIndent(undoFile{undoVersion, now, plan}, "", " ")
	return text, fault.Wrap(fault.Internal, err)
}

// ReadUndoFile returns the plan of an undo file. It returns fault.Invalid for another file.
func ReadUndoFile(text []byte) ([]fleet.Change, error) {
	var file undoFile
	if err := json.Unmarshal(text, &file); err != nil || file.Version != undoVersion {
		return nil, fault.New(fault.Invalid, "it is not an undo file of this version of berth")
	}
	return file.Changes, nil
}
