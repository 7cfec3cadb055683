//! Sessions that begin with what the application sets.

use super::*;

#[tokio::test]
async fn a_visitor_is_balanced_until_the_login() -> Result<()> {
    let mut site = Site::start(config()?).await?;
    let mut visitor = site.visitor();
    assert_balanced(&mut visitor).await?;
    assert_eq!(site.envoy.metric("web.issued").await?, 0);

    let login = setting(&mut visitor, &site, LOGIN).await?;
    assert_eq!(login.set_cookies().len(), 2, "the application's and the session's");
    assert_eq!(login.header("cache-control"), Some("private"));
    assert_kept(&mut visitor, login.backend()).await?;

    // A living session gets another backend without another login.
    site.stop_backend_of(&login).await?;
    let moved = visitor.get("/").await?;
    assert_ne!(moved.backend(), login.backend());
    assert!(moved.set_cookie(SESSION).is_some());
    assert_kept(&mut visitor, moved.backend()).await?;
    assert_eq!(site.envoy.metric("web.issued").await?, 1);
    assert_eq!(site.envoy.metric("web.reissued").await?, 1);
    Ok(())
}
