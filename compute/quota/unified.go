package quota

import "strings"

// Keystone's names of the limits that Nova reads, beside `servers` and those of resource classes, have this prefix.
const serverPrefix = "server_"

// unifiedNames are the names of Keystone's limits that differ from Nova's by more than the prefix.
var unifiedNames = map[string]string{"servers": Instances, "server_groups": ServerGroups,
	"server_group_members": ServerGroupMembers}

// classNames are the resource classes whose limits are shown as those of cores and memory.
var classNames = map[string]string{Cores: ClassPrefix + "VCPU", RAM: ClassPrefix + "MEMORY_MB"}

// FromUnified returns limits that have Keystone's names under Nova's. A resource in required that has no limit has the
// limit 0, as in Nova with the strategy `require`. Cores and memory are limited by their resource classes.
func FromUnified(limits map[string]int, required []string) Amounts {
	all := Amounts{}
	for _, name := range required {
		all[fromUnified(name)] = 0
	}
	for name, limit := range limits {
		all[fromUnified(name)] = limit
	}
	return all
}

func fromUnified(name string) string {
	if own, ok := unifiedNames[name]; ok {
		return own
	}
	return strings.TrimPrefix(name, serverPrefix)
}

// ShownUnified returns amounts as the Compute API shows them with unified limits: those of the classes VCPU and
// MEMORY_MB are cores and memory.
func (a Amounts) ShownUnified() Amounts {
	all := a.With(nil)
	for name, class := range classNames {
		delete(all, name)
		if n, ok := a[class]; ok {
			all[name] = n
			delete(all, class)
		}
	}
	return all
}
