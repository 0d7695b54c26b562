//! The security requirements in `/openapi.json`.

use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};

use super::caller::{COOKIE, OPEN};

/// Declares that the settings may require a token, and which operations never do.
pub(in crate::http) fn describe(api: &mut OpenApi) {
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let session = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new(COOKIE)));
    let components = api.components.get_or_insert_default();
    components.add_security_scheme("bearer", bearer);
    components.add_security_scheme("session", session);
    let none: [&str; 0] = [];
    api.security = Some(vec![
        SecurityRequirement::default(),
        SecurityRequirement::new("bearer", none),
        SecurityRequirement::new("session", none),
    ]);
    for path in OPEN {
        let item = api.paths.paths.get_mut(path);
        if let Some(get) = item.and_then(|item| item.get.as_mut()) {
            get.security = Some(Vec::new());
        }
    }
}
