package settings

import "testing"

func TestLogFile(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "log_file = a.log": "a.log", "log_file = /x/a.log\nlog_dir = /y": "/x/a.log",
		"log_file = a.log\nlog_dir = /y": "/y/a.log", "log_dir = /y": "/y/berth.log",
	} {
		if s, _, err := readText(t, "[DEFAULT]\n"+text+"\n"); err != nil || s.LogFile != want {
			t.Errorf("%q: %q %v", text, s.LogFile, err)
		}
	}
}
