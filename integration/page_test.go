package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// visitor is somebody with a browser.
type visitor struct {
	t   *testing.T
	ctx context.Context
}

// visit opens a page with Chromium, as wide and high as a screen. What goes wrong in the page fails the test.
func visit(t *testing.T, url string, width, height int64) *visitor {
	t.Helper()
	// Without its sandbox, which root cannot have: only pages of ours are opened.
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(time.Minute))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // it logs what it does not know of a newer browser
	t.Cleanup(cancel)
	v := &visitor{t, ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		if thrown, is := event.(*runtime.EventExceptionThrown); is {
			t.Errorf("the page has thrown: %s", thrown.ExceptionDetails.Error())
		}
	})
	v.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(url))
	return v
}

func (v *visitor) do(actions ...chromedp.Action) {
	v.t.Helper()
	require.NoError(v.t, chromedp.Run(v.ctx, actions...))
}

// says is what an expression of the page's language is, as text.
func (v *visitor) says(expression string) (text string) {
	v.t.Helper()
	v.do(chromedp.Evaluate("String("+expression+")", &text))
	return text
}

// sees waits until an expression has a value.
func (v *visitor) sees(want, expression string) {
	v.t.Helper()
	eventually(v.t, expression, func() string {
		var is string // what it is of may not be there yet
		if err := chromedp.Run(v.ctx, chromedp.Evaluate("String("+expression+")", &is)); err != nil || is != want {
			return fmt.Sprintf("it is %q, not %q (%v)", is, want, err)
		}
		return ""
	})
}

// click clicks what is called so when it is read out.
func (v *visitor) click(label string) {
	v.t.Helper()
	v.do(chromedp.Click(`button[aria-label="`+strings.ReplaceAll(label, `"`, `\"`)+`"]`, chromedp.ByQuery))
}

// TestDispatchPage: the web page of jobs shows and does what is asked of it, and takes nothing of what messages hold for HTML.
func TestDispatchPage(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("mail")
	const markup = `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`
	var repaired atomic.Bool
	app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, body string, _ int) {
		if body == markup && !repaired.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, markup)
		}
	})
	d := runDispatch(t, "admin: {address: \"127.0.0.1:0\", token: "+adminToken+"}\n"+
		jobConfig(e, name, app.URL, "executors: 2", "retry: {max: 1}", "breaker: {failures: 0}"))
	admin := operate(t, d).admin
	awaitConsumers(t, e, name, 2)
	m := text(markup)
	m.MessageId = markup
	require.NoError(t, confirming(t, e.url).PublishWithContext(t.Context(), name+"_router", "", true, false, m))

	v := visit(t, admin+"/", 1400, 900)
	v.sees("/jobs", "location.pathname")
	const row = "document.querySelector('tbody.job')."
	v.sees(name, row+"querySelector('.name').textContent")
	v.sees("running", row+"querySelector('.state').textContent")
	v.sees("1 5xx", row+"querySelector('[data-label=Errors]').textContent")

	v.click("one executor more for " + name) // which takes the token: a wrong one is asked for again
	for _, typed := range []string{"wrong-token-00000", adminToken} {
		v.do(chromedp.WaitVisible("#token-value", chromedp.ByQuery), chromedp.SendKeys("#token-value", typed+"\r", chromedp.ByQuery))
		if typed != adminToken {
			v.sees("That was not the token", "document.getElementById('token-title').textContent")
		}
	}
	awaitConsumers(t, e, name, 3)
	v.sees("3", row+"querySelector('input').value")
	v.click("pause " + name)
	awaitConsumers(t, e, name, 0)
	v.sees("paused", row+"querySelector('.state').textContent")
	v.click("resume " + name)
	awaitConsumers(t, e, name, 3)
	v.click("last failures of " + name)
	v.sees("1", row+"querySelectorAll('.failures li').length")
	v.sees("false", row+"querySelector('.failures').textContent.includes('taken')") // what was answered is shown when asked for
	v.click("show what the endpoint of " + name + " answered")
	v.sees("true", row+"querySelector('.failures').textContent.endsWith(`"+markup+"`)")

	v.click("dead letters of " + name)
	v.sees("1 dead letter.", "document.getElementById('letters-message').textContent")
	v.sees("true", "document.querySelector('#letters pre').hidden")
	v.do(chromedp.Evaluate(`document.querySelector('#letters-list li p').lastElementChild.click()`, nil)) // show the body
	v.sees(markup, "document.querySelector('#letters pre').textContent")
	require.Equal(t, "Jobs – shardmq", v.says("document.title"))
	require.Equal(t, "0", v.says("document.querySelectorAll('main img, dialog img, main script, dialog script').length"))
	repaired.Store(true)
	v.do(chromedp.Click("#replay-all", chromedp.ByQuery))
	v.sees("1 dead letter replayed. There are none.", "document.getElementById('letters-message').textContent")
	eventually(t, "it is done", func() string { return e.messages() })
	require.Len(t, app.asked(markup), 2)

	v.do(chromedp.KeyEvent("\x1b"), chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	v.sees("false", "document.getElementById('letters').open")
	v.sees("true", "document.documentElement.scrollWidth <= innerWidth") // nothing is beside a phone's screen
	require.NoError(t, d.Kill())
	v.sees("lost", "document.getElementById('live').className")
}
