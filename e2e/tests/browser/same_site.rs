//! Ways from another site to the shop, and the session then: the table of docs/background/modes.md.

use limpet_e2e::poll;

use super::*;

const PAGE: &str = include_str!("../../../docs/background/modes.md");

/// The table's columns: a value, and whether the browser blocks cookies of third parties.
const COLUMNS: [(&str, bool); 4] = [("Strict", false), ("Lax", false), ("None", false), ("None", true)];

/// A way to the shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Typed,
    TypedRedirect,
    Sibling,
    Link,
    Reload,
    Script,
    ThereAndBack,
    Form,
    Post,
    Frame,
    Image,
    Fetch,
    WebSocket,
}

impl Way {
    const ALL: [Self; 13] = [
        Self::Typed,
        Self::TypedRedirect,
        Self::Sibling,
        Self::Link,
        Self::Reload,
        Self::Script,
        Self::ThereAndBack,
        Self::Form,
        Self::Post,
        Self::Frame,
        Self::Image,
        Self::Fetch,
        Self::WebSocket,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Typed => "A URL that the user types",
            Self::TypedRedirect => "The same for a URL of another site that redirects to the site",
            Self::Sibling => "A link of another host of the same site",
            Self::Link => "A link",
            Self::Reload => "The page of a link, loaded again",
            Self::Script => "A script that sets `location`",
            Self::ThereAndBack => "A link on the site to another one, which redirects back",
            Self::Form => "A form with `GET`",
            Self::Post => "A form with `POST`",
            Self::Frame => "A frame",
            Self::Image => "An image",
            Self::Fetch => "A `fetch` with credentials",
            Self::WebSocket => "A WebSocket",
        }
    }

    /// Whether it leads the window to the shop, and not only a part of another site's page.
    fn leads_the_window(self) -> bool {
        !matches!(self, Self::Frame | Self::Image | Self::Fetch | Self::WebSocket)
    }

    async fn begin(self, browser: &Browser, url: &str) -> Result<()> {
        match self {
            Self::ThereAndBack => browser.go(&format!("{SHOP}/empty")).await,
            Self::Sibling => browser.go(SIBLING).await,
            Self::Reload => {
                browser.go(OTHER).await?;
                follow_link(browser, url).await
            }
            _ => browser.go(OTHER).await,
        }
    }

    /// Goes to a URL of the shop, and waits for the answer.
    async fn go(self, browser: &Browser, url: &str) -> Result<()> {
        let redirect = url.replace(SHOP, OTHER).replace("/way/", "/redirect/");
        match self {
            Self::Typed => browser.go(url).await,
            Self::TypedRedirect => browser.go(&redirect).await,
            Self::Sibling | Self::Link => follow_link(browser, url).await,
            Self::Reload => browser.reload().await,
            Self::ThereAndBack => follow_link(browser, &redirect).await,
            Self::Script => run(browser, "setTimeout((url) => location = url, 0, arguments[0])", url).await,
            Self::Form => send_form(browser, url, "GET").await,
            Self::Post => send_form(browser, url, "POST").await,
            Self::Frame => run(browser, &element("iframe"), url).await,
            Self::Image => run(browser, &element("img"), url).await,
            Self::Fetch => {
                let fetch = "await fetch(arguments[0], {mode: 'no-cors', credentials: 'include'})";
                run(browser, fetch, url).await
            }
            Self::WebSocket => {
                let socket = "await new Promise((done) => { new WebSocket(arguments[0]).onerror = done; })";
                run(browser, socket, &url.replace("https", "wss")).await
            }
        }?;
        if self.leads_the_window() {
            // A form has an empty query.
            let has_come = async || {
                let present = browser.url().await.ok()?;
                (present.trim_end_matches('?') == url).then_some(())
            };
            poll::until(url, has_come).await?;
        }
        Ok(())
    }
}

async fn run(browser: &Browser, script: &str, url: &str) -> Result<()> {
    browser.script(script, &[url.into()]).await?;
    Ok(())
}

async fn follow_link(browser: &Browser, url: &str) -> Result<()> {
    let link = "
        const link = document.createElement('a');
        link.href = arguments[0];
        link.textContent = 'A link';
        document.body.append(link);";
    run(browser, link, url).await?;
    browser.click("a").await
}

async fn send_form(browser: &Browser, url: &str, method: &str) -> Result<()> {
    let form = "
        const form = document.createElement('form');
        form.action = arguments[0];
        form.method = arguments[1];
        form.innerHTML = '<button>Go</button>';
        document.body.append(form);";
    browser.script(form, &[url.into(), method.into()]).await?;
    browser.click("button").await
}

fn element(name: &str) -> String {
    format!(
        "await new Promise((done) => {{
            const it = document.createElement('{name}');
            it.onload = it.onerror = done;
            it.src = arguments[0];
            document.body.append(it);
        }})"
    )
}

async fn sent(shop: &Shop, way: Way, path: &str) -> Result<Option<String>> {
    if way.leads_the_window() {
        return Ok(cookies(&shop.browser.page().await?).map(str::to_owned));
    }
    let last = shop.site.backends.iter().filter_map(|backend| backend.last().ok());
    let seen = last.into_iter().find(|seen| seen.path == path);
    Ok(seen.context("no request")?.cookies())
}

/// The outcome for the session, in the words of the page.
async fn outcome(shop: &Shop, way: Way) -> Result<&'static str> {
    let path = format!("/way/{way:?}");
    let url = format!("{SHOP}{path}");
    shop.visit("/").await?;
    let mut token = shop.token().await?;
    way.begin(&shop.browser, &url).await?;
    if way == Way::Reload {
        token = shop.token().await?;
    }
    let token = token.context("no session")?;
    way.go(&shop.browser, &url).await?;
    let was_sent = sent(shop, way, &path).await? == Some(format!("{COOKIE}={token}"));
    shop.browser.go(&format!("{SHOP}/empty")).await?;
    let kept = shop.token().await?.context("the browser lost the cookie")?;
    Ok(match (was_sent, kept == token) {
        (true, true) => "kept",
        (false, false) => "replaced",
        (false, true) => "apart",
        (true, false) => "sent, but replaced",
    })
}

/// This way's cells in the page's table.
fn cells(way: Way) -> Result<Vec<&'static str>> {
    let start = format!("| {} | ", way.label());
    let row = PAGE.lines().find_map(|line| line.strip_prefix(start.as_str()));
    let row = row.with_context(|| format!("the page has no row of {way:?}"))?;
    Ok(row.trim_end_matches(" |").split(" | ").collect())
}

#[tokio::test]
async fn each_way_from_another_site_does_what_the_page_says() -> Result<()> {
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    for (column, (value, blocked)) in COLUMNS.into_iter().enumerate() {
        // Forwarded, so that backends see whether it was sent.
        let cookie = json!({"name": COOKIE, "sameSite": value, "secure": "always", "forward": true});
        // Without a WebSocket service, whose requests are then seen like all others.
        let site = Site::start(config(&json!({"cookie": cookie}))?).await?;
        let browser = Browser::start_with(site.envoy.address(), &third_parties(blocked)).await?;
        let shop = Shop { site, browser };
        for way in Way::ALL {
            let cell = cells(way)?.get(column).copied().unwrap_or_default();
            expected.push((column, way, cell));
            let outcome = outcome(&shop, way).await;
            found.push((column, way, outcome.with_context(|| format!("{value}, {way:?}"))?));
        }
    }
    assert_eq!(found, expected);
    Ok(())
}

/// A row for each way, and no other.
#[test]
fn the_page_has_the_ways_of_the_test() -> Result<()> {
    for way in Way::ALL {
        assert_eq!(cells(way)?.len(), COLUMNS.len(), "{way:?}");
    }
    let header = "| The way to the site | `Strict` | `Lax` | `None` | `None`, cookies of third parties blocked |";
    let rows = PAGE.lines().skip_while(|line| *line != header).skip(2);
    assert_eq!(rows.take_while(|line| line.starts_with('|')).count(), Way::ALL.len());
    Ok(())
}

/// After a link that lost the session, the site's next pages are in the new one.
#[tokio::test]
async fn a_visitor_by_a_link_has_a_new_session() -> Result<()> {
    let shop = Shop::open(&json!({"cookie": {"name": COOKIE}})).await?;
    shop.visit("/").await?;
    let before = shop.token().await?;
    shop.browser.go(OTHER).await?;
    follow_link(&shop.browser, &format!("{SHOP}/landing")).await?;
    let backend = name(&shop.browser.page().await?)?;
    assert_ne!(shop.token().await?, before);
    assert_eq!(shop.fetched_from("/", &json!({})).await?, one(&backend));
    for _ in 0..6 {
        assert_eq!(name(&shop.visit("/").await?)?, backend);
    }
    assert_eq!(shop.site.envoy.metric("web.issued").await?, 2);
    Ok(())
}
