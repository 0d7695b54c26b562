//! Table of secret formats: keys and tokens that begin with a prefix of their provider. Secrets
//! that are recognized only by their context are in `context`.

use std::ops::RangeInclusive;

use super::bytes::{self, run_before};
use super::runs::Class::{self, Alnum, Base64, Dashed, Dotted, Hex, Upper, Word};
use super::runs::Runs;
use super::text::{is_no_placeholder, is_random, starts_word};
use super::{Found, context};
use Look::{All, One};

/// Format of a secret that begins with a prefix.
pub(super) struct Token {
    /// Name in the placeholder.
    pub name: &'static str,
    pub prefix: &'static str,
    /// Bytes that may follow the prefix.
    alphabet: Class,
    /// Number of bytes after the prefix.
    lens: RangeInclusive<usize>,
    /// Whether the bytes after the prefix may be random: `is_no_placeholder` if no word begins with
    /// this prefix, so that they do not have to look random.
    is_random: fn(&[u8]) -> bool,
}

/// Maximum length of a token that has no fixed length.
const ANY: usize = 1 << 14;

/// Declares tokens: the name in the placeholder, the prefixes, the bytes that may follow and their
/// number, and whether those are random.
macro_rules! tokens {
    ($($name:ident: $($prefix:literal)+, $alphabet:ident, $lens:expr, $is_random:ident;)+) => {
        &[$($(Token {
            name: stringify!($name),
            prefix: $prefix,
            alphabet: $alphabet,
            lens: $lens,
            is_random: $is_random,
        },)+)+]
    };
}

/// If one prefix begins with another, the longer one comes first.
pub(super) const TOKENS: &[Token] = tokens! {
    // Models and the services that run them.
    anthropic_key: "sk-ant-", Dashed, 24..=ANY, is_random;
    openrouter_key: "sk-or-v1-", Hex, 40..=ANY, is_random;
    langfuse_key: "sk-lf-", Dashed, 30..=64, is_random;
    openai_key: "sk-proj-" "sk-svcacct-" "sk-admin-" "sk-None-", Dashed, 24..=ANY, is_random;
    openai_key: "sk-", Alnum, 32..=164, is_random;
    huggingface_token: "hf_" "api_org_", Alnum, 30..=64, is_random;
    replicate_token: "r8_", Alnum, 30..=64, is_random;
    groq_key: "gsk_", Alnum, 40..=80, is_random;
    xai_key: "xai-", Alnum, 60..=120, is_random;
    perplexity_key: "pplx-", Alnum, 40..=80, is_random;
    cerebras_key: "csk-", Alnum, 40..=80, is_random;
    fireworks_key: "fw_", Alnum, 22..=64, is_random;
    nvidia_key: "nvapi-", Dashed, 50..=120, is_random;
    together_key: "tgp_v1_", Dashed, 32..=80, is_random;
    langsmith_key: "lsv2_", Word, 32..=80, is_random;
    tavily_key: "tvly-", Dashed, 28..=80, is_random;
    jina_key: "jina_", Dashed, 40..=120, is_random;
    e2b_key: "e2b_", Hex, 32..=64, is_random;
    firecrawl_key: "fc-", Hex, 32..=32, is_random;
    elevenlabs_key: "sk_", Hex, 48..=48, is_random;
    pinecone_key: "pcsk_", Word, 60..=120, is_random;
    anyscale_key: "esecret_", Alnum, 24..=80, is_random;
    // Clouds.
    aws_access_key: "AKIA" "ASIA" "ABIA" "ACCA", Upper, 16..=16, is_no_placeholder;
    aws_bedrock_key: "ABSK", Base64, 100..=280, is_random;
    aws_bedrock_key: "bedrock-api-key-", Base64, 60..=ANY, is_random;
    google_api_key: "AIza", Dashed, 35..=35, is_random;
    google_secret: "GOCSPX-", Dashed, 24..=40, is_no_placeholder;
    google_token: "ya29.", Dotted, 24..=ANY, is_no_placeholder;
    google_token: "1//0", Dashed, 40..=256, is_random;
    azure_key: "AccountKey=" "SharedAccessKey=", Base64, 40..=120, is_random;
    digitalocean_token: "dop_v1_" "doo_v1_" "dor_v1_", Hex, 64..=64, is_random;
    alibaba_key: "LTAI", Alnum, 12..=26, is_random;
    databricks_token: "dapi", Hex, 32..=32, is_random;
    supabase_key: "sbp_", Hex, 40..=64, is_random;
    supabase_key: "sb_secret_", Dashed, 22..=64, is_random;
    heroku_key: "HRKU-", Dashed, 36..=80, is_random;
    netlify_token: "nfp_", Alnum, 32..=64, is_random;
    planetscale_token: "pscale_", Dotted, 32..=80, is_random;
    render_key: "rnd_", Alnum, 24..=64, is_random;
    vercel_token: "vercel_blob_rw_", Word, 40..=80, is_random;
    vercel_token: "vcp_" "vck_", Alnum, 40..=80, is_random;
    yandex_key: "AQVN", Dashed, 35..=38, is_random;
    neon_key: "napi_", Alnum, 60..=80, is_random;
    scalingo_token: "tk-us-", Dashed, 48..=48, is_random;
    cloudflare_key: "v1.0-", Dashed, 171..=171, is_random;
    // Code and packages.
    github_token: "ghp_" "gho_", Alnum, 30..=255, is_random;
    github_token: "ghu_" "ghs_" "ghr_", Dotted, 30..=ANY, is_random;
    github_token: "github_pat_", Word, 40..=255, is_random;
    gitlab_token: "glpat-" "glrt-" "glrtr-", Dotted, 20..=320, is_no_placeholder;
    gitlab_token: "gldt-" "glsoat-" "glffct-", Dashed, 20..=64, is_no_placeholder;
    gitlab_token: "glptt-", Alnum, 40..=64, is_no_placeholder;
    gitlab_token: "glft-" "glcbt-", Dashed, 20..=80, is_no_placeholder;
    gitlab_token: "glimt-", Dashed, 25..=64, is_no_placeholder;
    gitlab_token: "glagent-", Dashed, 50..=80, is_no_placeholder;
    gitlab_token: "gloas-", Alnum, 64..=64, is_no_placeholder;
    gitlab_token: "GR1348941", Dashed, 20..=40, is_no_placeholder;
    bitbucket_token: "ATBB", Alnum, 28..=36, is_random;
    atlassian_token: "ATATT3" "ATCTT3", Base64, 60..=256, is_random;
    trello_token: "ATTA", Hex, 60..=76, is_random;
    npm_token: "npm_", Alnum, 36..=36, is_random;
    pypi_token: "pypi-AgE", Dashed, 50..=ANY, is_random;
    rubygems_key: "rubygems_", Hex, 48..=48, is_random;
    docker_token: "dckr_pat_" "dckr_oat_", Dashed, 24..=64, is_no_placeholder;
    circleci_token: "CCIPAT_", Word, 40..=80, is_random;
    buildkite_token: "bkua_", Alnum, 40..=40, is_random;
    pulumi_token: "pul-", Hex, 40..=40, is_random;
    artifactory_key: "AKCp", Alnum, 69..=69, is_random;
    artifactory_token: "cmVmdGtu", Alnum, 48..=64, is_random;
    clojars_token: "CLOJARS_", Alnum, 60..=60, is_random;
    nuget_key: "oy2", Alnum, 43..=43, is_random;
    crates_token: "cio", Alnum, 32..=32, is_random;
    sonar_token: "squ_" "sqp_" "sqa_", Hex, 40..=40, is_random;
    sourcegraph_token: "sgp_", Word, 40..=64, is_random;
    prefect_token: "pnu_", Alnum, 36..=36, is_random;
    harness_token: "pat." "sat.", Dotted, 68..=68, is_random;
    octopus_key: "API-", Upper, 26..=26, is_random;
    infracost_key: "ico-", Alnum, 32..=32, is_random;
    // Messaging, mail and payment.
    slack_token: "xoxe.xox", Dotted, 30..=400, is_random;
    slack_token: "xoxa-" "xoxb-" "xoxe-" "xoxp-" "xoxr-" "xoxs-" "xoxc-" "xoxo-",
        Dashed, 20..=400, is_no_placeholder;
    slack_token: "xoxd-", Base64, 20..=400, is_no_placeholder;
    slack_token: "xapp-", Dashed, 30..=400, is_random;
    stripe_key: "sk_live_" "sk_test_" "rk_live_" "rk_test_" "sk_prod_" "rk_prod_",
        Word, 16..=255, is_random;
    webhook_secret: "whsec_", Base64, 24..=128, is_random;
    sendgrid_key: "SG.", Dotted, 50..=80, is_random;
    mailgun_key: "key-", Hex, 32..=32, is_random;
    brevo_key: "xkeysib-", Dashed, 60..=100, is_random;
    shopify_token: "shpat_" "shpca_" "shppa_" "shpss_", Hex, 32..=32, is_random;
    square_token: "sq0csp-", Dashed, 40..=60, is_random;
    square_token: "sq0atp-", Dashed, 22..=60, is_random;
    square_token: "EAAA", Dashed, 56..=64, is_random;
    facebook_token: "EAAC" "EAAM" "EAAG" "EAAB", Alnum, 80..=ANY, is_random;
    plaid_token: "access-production-" "access-development-" "access-sandbox-",
        Dashed, 36..=36, is_random;
    flutterwave_key: "FLWSECK_TEST-", Dashed, 32..=40, is_random;
    flutterwave_key: "FLWSECK-", Dashed, 32..=64, is_random;
    easypost_key: "EZAK" "EZTK", Alnum, 54..=54, is_random;
    shippo_token: "shippo_live_" "shippo_test_", Hex, 40..=40, is_random;
    duffel_token: "duffel_live_" "duffel_test_", Base64, 43..=43, is_random;
    // Project and work management.
    linear_key: "lin_api_", Alnum, 32..=64, is_random;
    linear_key: "lin_oauth_", Alnum, 40..=80, is_random;
    notion_token: "secret_", Alnum, 43..=43, is_random;
    notion_token: "ntn_", Alnum, 40..=60, is_random;
    figma_token: "figd_", Dashed, 36..=80, is_random;
    postman_key: "PMAK-", Dashed, 50..=80, is_random;
    typeform_token: "tfp_", Dotted, 40..=80, is_random;
    airtable_token: "pat", Dotted, 79..=79, is_random;
    contentful_token: "CFPAT-", Dashed, 40..=64, is_random;
    hubspot_token: "pat-na1-" "pat-eu1-", Dashed, 36..=36, is_random;
    frameio_token: "fio-u-", Dashed, 60..=80, is_random;
    readme_key: "rdme_", Alnum, 70..=70, is_random;
    adobe_secret: "p8e-", Alnum, 32..=32, is_random;
    mapbox_token: "sk.eyJ", Dotted, 60..=200, is_random;
    settlemint_token: "sm_aat_" "sm_pat_" "sm_sat_", Alnum, 16..=16, is_random;
    dynatrace_token: "dt0c01.", Dotted, 80..=100, is_no_placeholder;
    dynatrace_token: "dt0s01." "dt0s02." "dt0s16.", Dotted, 64..=100, is_no_placeholder;
    sentry_token: "sntrys_", Base64, 60..=ANY, is_random;
    sentry_token: "sntryu_", Hex, 64..=64, is_random;
    grafana_token: "glsa_", Word, 38..=60, is_random;
    grafana_token: "glc_", Base64, 40..=400, is_random;
    newrelic_key: "NRAK-", Alnum, 27..=27, is_random;
    posthog_key: "phx_", Alnum, 40..=80, is_random;
    // Secret stores and networks.
    vault_token: "hvs.", Dashed, 24..=300, is_no_placeholder;
    vault_token: "hvb.", Dashed, 60..=300, is_random;
    doppler_token: "dp.pt." "dp.ct." "dp.sa." "dp.scim." "dp.audit.", Alnum, 40..=50, is_random;
    doppler_token: "dp.st.", Dotted, 40..=100, is_random;
    onepassword_token: "ops_eyJ", Base64, 100..=ANY, is_random;
    tailscale_key: "tskey-", Dashed, 20..=100, is_random;
    decklog_token: "dl_", Hex, 64..=64, is_random;
    age_key: "AGE-SECRET-KEY-1", Upper, 58..=58, is_no_placeholder;
    fly_token: "FlyV1 fm", Base64, 60..=ANY, is_random;
    fly_token: "fo1_", Dashed, 43..=43, is_random;
    fly_token: "fm1a_" "fm1r_" "fm2_", Base64, 100..=ANY, is_random;
};

impl Token {
    /// Alphabet, minimum and maximum length of the part after the prefix.
    #[cfg(test)]
    pub(super) fn body(&self) -> (Class, usize, usize) {
        (self.alphabet, *self.lens.start(), *self.lens.end())
    }

    /// The token whose prefix is at `at`. A run longer than `most` is not a token.
    pub(super) fn found(&self, text: &[u8], runs: &Runs<'_>, at: usize) -> Option<Found> {
        /// Maximum number of full stops at the end that are not part of the token.
        const STOPS_MAX: usize = 16;
        let body = text.get(at..)?.strip_prefix(self.prefix.as_bytes())?;
        if !starts_word(text, at) {
            return None;
        }
        let start = at + self.prefix.len();
        let run = &body[..runs.end(self.alphabet, start) - start];
        // Markdown emphasis: `__ghp_…__`.
        let stress = strokes_before(text, at);
        let run = &run[..run.len() - strokes_before(run, run.len()).min(stress)];
        let len = run.len() - run_before(run, run.len(), STOPS_MAX, |byte| byte == b'.');
        let rest = &body[len..];
        let strokes = bytes::run(rest, 0, stress, |byte| byte == b'_');
        let ends = rest.get(strokes).is_none_or(|next| !Word.has(*next));
        let is_token = self.lens.contains(&len) && ends && (self.is_random)(&body[..len]);
        is_token.then(|| Found::new(self.name, at, start + len))
    }
}

/// Number of `_` directly before `at`, up to the number that Markdown emphasis uses.
fn strokes_before(text: &[u8], at: usize) -> usize {
    const MARKS_MAX: usize = 3;
    run_before(text, at, MARKS_MAX, |byte| byte == b'_')
}

/// The function that locates the secrets.
#[derive(Clone, Copy)]
pub(super) enum Look {
    One(fn(&context::Place<'_>) -> Option<Found>),
    All(fn(&context::Place<'_>, &mut Vec<Found>)),
}

/// A rule for secrets that are recognized by their context.
pub(super) struct Context {
    /// Every text with such a secret contains one of these.
    pub anchors: &'static [&'static str],
    /// Returns the secrets at an occurrence of an anchor.
    look: Look,
}

impl Context {
    pub(super) fn found(&self, place: &context::Place<'_>, found: &mut Vec<Found>) {
        match self.look {
            One(look) => found.extend(look(place)),
            All(look) => look(place, found),
        }
    }
}

const fn rule(anchors: &'static [&'static str], look: Look) -> Context {
    Context { anchors, look }
}

/// Rules whose anchor is in the same run as at least 16 bytes of a key, like a prefix.
pub(super) const RUNS: &[Context] = &[
    // `{"`, with an optional blank or line break after the brace.
    rule(&["eyJ", "eyA", "ewo", "ew0"], One(context::jwt)),
    // `-----BEGIN`
    rule(&["LS0tLS1CRUdJTi"], One(context::encoded_key)),
    rule(&[".atlasv1."], One(context::terraform_token)),
    rule(&["-us"], One(context::mailchimp_key)),
    rule(
        &["hooks.slack.com/", "/api/webhooks/"],
        One(context::webhook),
    ),
    rule(&[":AA"], One(context::telegram_token)),
    rule(&["7Q~", "8Q~"], One(context::azure_secret)),
    // The digits of an id, in base64.
    rule(
        &["MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"],
        One(context::discord_token),
    ),
    rule(&["re_"], One(context::resend_key)),
    rule(&["SK"], One(context::twilio_key)),
];

/// Rules whose anchor is in a word next to the secret. The search sees only the first three or four
/// bytes of an anchor, so these should be rare in other words.
pub(super) const WORDS: &[Context] = &[
    rule(&["PRIVATE KEY"], One(context::private_key)),
    rule(&["ig="], One(context::azure_signature)),
    rule(&["://"], One(context::url_password)),
    rule(&["kie", "KIE"], All(context::cookies)),
    rule(&["curl "], One(context::curl_password)),
    rule(
        &[" -p", " -a", " -P", " -w", " -S"],
        One(context::option_password),
    ),
    rule(&["auth=(", "Auth("], One(context::basic_auth_password)),
    rule(&[":5432:", ":*:"], One(context::pgpass_password)),
    rule(&[":thin:"], One(context::oracle_password)),
    rule(&["@tcp(", "@unix("], One(context::driver_password)),
    rule(
        &["TIFIED BY", "tified by", "TIFIED WITH", "tified with"],
        One(context::identified_by),
    ),
    rule(&["rer ", "RER "], One(context::bearer)),
    rule(&["sic ", "SIC "], One(context::basic)),
    rule(
        &[
            "pass", "Pass", "PASS", "pwd", "Pwd", "PWD", "psk", "PSK", "ecret", "ECRET", "oken",
            "OKEN", "_key", "-key", "ikey", "skey", "Key", "KEY", "rization", "RIZATION", "_auth",
            "\"auth", "nnwort", "NNWORT", "rasena", "RASENA", "enha", "ENHA", "twoord", "TWOORD",
        ],
        All(context::assignments),
    ),
    // In other alphabets.
    rule(
        &[
            "seña",
            "SEÑA",
            "asło",
            "ASŁO",
            "пароль",
            "Пароль",
            "ПАРОЛЬ",
            "密码",
            "密碼",
            "パスワード",
        ],
        All(context::assignments),
    ),
];
