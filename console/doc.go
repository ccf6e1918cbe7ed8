// Package console serves web pages that show a cloud: its hosts and devices, and who holds them. It reads the APIs as
// the user who has signed in, so a user sees what the APIs let that user see, of Berth's clouds and of OpenStack's.
//
// Pages are HTML and SVG from templates; they work without script. The script adds keys, the theme and live changes.
// Nothing is requested from another host, and no page has inline script or style.
package console
