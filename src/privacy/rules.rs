//! Table of secret formats: keys and tokens that begin with a prefix of their provider. Secrets
//! that are recognized only by their context are in `context`.

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
    /// Minimum and maximum number of bytes after the prefix.
    least: usize,
    most: usize,
    /// No word begins with this prefix, so the rest does not have to look random.
    is_sure: bool,
}

/// Maximum length of a token that has no fixed length.
const ANY: usize = 1 << 14;

const fn token(
    name: &'static str,
    prefix: &'static str,
    alphabet: Class,
    least: usize,
    most: usize,
) -> Token {
    Token {
        name,
        prefix,
        alphabet,
        least,
        most,
        is_sure: false,
    }
}

/// A token whose prefix is unique.
const fn sure(
    name: &'static str,
    prefix: &'static str,
    alphabet: Class,
    least: usize,
    most: usize,
) -> Token {
    Token {
        is_sure: true,
        ..token(name, prefix, alphabet, least, most)
    }
}

/// If one prefix begins with another, the longer one comes first.
pub(super) const TOKENS: &[Token] = &[
    // Models and the services that run them.
    token("anthropic_key", "sk-ant-", Dashed, 24, ANY),
    token("openrouter_key", "sk-or-v1-", Hex, 40, ANY),
    token("langfuse_key", "sk-lf-", Dashed, 30, 64),
    token("openai_key", "sk-proj-", Dashed, 24, ANY),
    token("openai_key", "sk-svcacct-", Dashed, 24, ANY),
    token("openai_key", "sk-admin-", Dashed, 24, ANY),
    token("openai_key", "sk-None-", Dashed, 24, ANY),
    token("openai_key", "sk-", Alnum, 32, 164),
    token("huggingface_token", "hf_", Alnum, 30, 64),
    token("huggingface_token", "api_org_", Alnum, 30, 64),
    token("replicate_token", "r8_", Alnum, 30, 64),
    token("groq_key", "gsk_", Alnum, 40, 80),
    token("xai_key", "xai-", Alnum, 60, 120),
    token("perplexity_key", "pplx-", Alnum, 40, 80),
    token("cerebras_key", "csk-", Alnum, 40, 80),
    token("fireworks_key", "fw_", Alnum, 22, 64),
    token("nvidia_key", "nvapi-", Dashed, 50, 120),
    token("together_key", "tgp_v1_", Dashed, 32, 80),
    token("langsmith_key", "lsv2_", Word, 32, 80),
    token("tavily_key", "tvly-", Dashed, 28, 80),
    token("jina_key", "jina_", Dashed, 40, 120),
    token("e2b_key", "e2b_", Hex, 32, 64),
    token("firecrawl_key", "fc-", Hex, 32, 32),
    token("elevenlabs_key", "sk_", Hex, 48, 48),
    token("pinecone_key", "pcsk_", Word, 60, 120),
    token("anyscale_key", "esecret_", Alnum, 24, 80),
    // Clouds.
    sure("aws_access_key", "AKIA", Upper, 16, 16),
    sure("aws_access_key", "ASIA", Upper, 16, 16),
    sure("aws_access_key", "ABIA", Upper, 16, 16),
    sure("aws_access_key", "ACCA", Upper, 16, 16),
    token("aws_bedrock_key", "ABSK", Base64, 100, 280),
    token("aws_bedrock_key", "bedrock-api-key-", Base64, 60, ANY),
    token("google_api_key", "AIza", Dashed, 35, 35),
    sure("google_secret", "GOCSPX-", Dashed, 24, 40),
    sure("google_token", "ya29.", Dotted, 24, ANY),
    token("google_token", "1//0", Dashed, 40, 256),
    token("azure_key", "AccountKey=", Base64, 40, 120),
    token("azure_key", "SharedAccessKey=", Base64, 40, 120),
    token("digitalocean_token", "dop_v1_", Hex, 64, 64),
    token("digitalocean_token", "doo_v1_", Hex, 64, 64),
    token("digitalocean_token", "dor_v1_", Hex, 64, 64),
    token("alibaba_key", "LTAI", Alnum, 12, 26),
    token("databricks_token", "dapi", Hex, 32, 32),
    token("supabase_key", "sbp_", Hex, 40, 64),
    token("supabase_key", "sb_secret_", Dashed, 22, 64),
    token("heroku_key", "HRKU-", Dashed, 36, 80),
    token("netlify_token", "nfp_", Alnum, 32, 64),
    token("planetscale_token", "pscale_", Dotted, 32, 80),
    token("render_key", "rnd_", Alnum, 24, 64),
    token("vercel_token", "vercel_blob_rw_", Word, 40, 80),
    token("vercel_token", "vcp_", Alnum, 40, 80),
    token("vercel_token", "vck_", Alnum, 40, 80),
    token("yandex_key", "AQVN", Dashed, 35, 38),
    token("neon_key", "napi_", Alnum, 60, 80),
    token("scalingo_token", "tk-us-", Dashed, 48, 48),
    token("cloudflare_key", "v1.0-", Dashed, 171, 171),
    // Code and packages.
    token("github_token", "ghp_", Alnum, 30, 255),
    token("github_token", "gho_", Alnum, 30, 255),
    token("github_token", "ghu_", Dotted, 30, ANY),
    token("github_token", "ghs_", Dotted, 30, ANY),
    token("github_token", "ghr_", Dotted, 30, ANY),
    token("github_token", "github_pat_", Word, 40, 255),
    sure("gitlab_token", "glpat-", Dotted, 20, 320),
    sure("gitlab_token", "gldt-", Dashed, 20, 64),
    sure("gitlab_token", "glrt-", Dotted, 20, 320),
    sure("gitlab_token", "glrtr-", Dotted, 20, 320),
    sure("gitlab_token", "glptt-", Alnum, 40, 64),
    sure("gitlab_token", "glft-", Dashed, 20, 80),
    sure("gitlab_token", "glsoat-", Dashed, 20, 64),
    sure("gitlab_token", "glcbt-", Dashed, 20, 80),
    sure("gitlab_token", "glimt-", Dashed, 25, 64),
    sure("gitlab_token", "glagent-", Dashed, 50, 80),
    sure("gitlab_token", "gloas-", Alnum, 64, 64),
    sure("gitlab_token", "glffct-", Dashed, 20, 64),
    sure("gitlab_token", "GR1348941", Dashed, 20, 40),
    token("bitbucket_token", "ATBB", Alnum, 28, 36),
    token("atlassian_token", "ATATT3", Base64, 60, 256),
    token("atlassian_token", "ATCTT3", Base64, 60, 256),
    token("trello_token", "ATTA", Hex, 60, 76),
    token("npm_token", "npm_", Alnum, 36, 36),
    token("pypi_token", "pypi-AgE", Dashed, 50, ANY),
    token("rubygems_key", "rubygems_", Hex, 48, 48),
    sure("docker_token", "dckr_pat_", Dashed, 24, 64),
    sure("docker_token", "dckr_oat_", Dashed, 24, 64),
    token("circleci_token", "CCIPAT_", Word, 40, 80),
    token("buildkite_token", "bkua_", Alnum, 40, 40),
    token("pulumi_token", "pul-", Hex, 40, 40),
    token("artifactory_key", "AKCp", Alnum, 69, 69),
    token("artifactory_token", "cmVmdGtu", Alnum, 48, 64),
    token("clojars_token", "CLOJARS_", Alnum, 60, 60),
    token("nuget_key", "oy2", Alnum, 43, 43),
    token("crates_token", "cio", Alnum, 32, 32),
    token("sonar_token", "squ_", Hex, 40, 40),
    token("sonar_token", "sqp_", Hex, 40, 40),
    token("sonar_token", "sqa_", Hex, 40, 40),
    token("sourcegraph_token", "sgp_", Word, 40, 64),
    token("prefect_token", "pnu_", Alnum, 36, 36),
    token("harness_token", "pat.", Dotted, 68, 68),
    token("harness_token", "sat.", Dotted, 68, 68),
    token("octopus_key", "API-", Upper, 26, 26),
    token("infracost_key", "ico-", Alnum, 32, 32),
    // Messaging, mail and payment.
    token("slack_token", "xoxe.xox", Dotted, 30, 400),
    sure("slack_token", "xoxa-", Dashed, 20, 400),
    sure("slack_token", "xoxb-", Dashed, 20, 400),
    sure("slack_token", "xoxe-", Dashed, 20, 400),
    sure("slack_token", "xoxp-", Dashed, 20, 400),
    sure("slack_token", "xoxr-", Dashed, 20, 400),
    sure("slack_token", "xoxs-", Dashed, 20, 400),
    sure("slack_token", "xoxc-", Dashed, 20, 400),
    sure("slack_token", "xoxd-", Base64, 20, 400),
    sure("slack_token", "xoxo-", Dashed, 20, 400),
    token("slack_token", "xapp-", Dashed, 30, 400),
    token("stripe_key", "sk_live_", Word, 16, 255),
    token("stripe_key", "sk_test_", Word, 16, 255),
    token("stripe_key", "rk_live_", Word, 16, 255),
    token("stripe_key", "rk_test_", Word, 16, 255),
    token("stripe_key", "sk_prod_", Word, 16, 255),
    token("stripe_key", "rk_prod_", Word, 16, 255),
    token("webhook_secret", "whsec_", Base64, 24, 128),
    token("sendgrid_key", "SG.", Dotted, 50, 80),
    token("mailgun_key", "key-", Hex, 32, 32),
    token("brevo_key", "xkeysib-", Dashed, 60, 100),
    token("shopify_token", "shpat_", Hex, 32, 32),
    token("shopify_token", "shpca_", Hex, 32, 32),
    token("shopify_token", "shppa_", Hex, 32, 32),
    token("shopify_token", "shpss_", Hex, 32, 32),
    token("square_token", "sq0csp-", Dashed, 40, 60),
    token("square_token", "sq0atp-", Dashed, 22, 60),
    token("square_token", "EAAA", Dashed, 56, 64),
    token("facebook_token", "EAAC", Alnum, 80, ANY),
    token("facebook_token", "EAAM", Alnum, 80, ANY),
    token("facebook_token", "EAAG", Alnum, 80, ANY),
    token("facebook_token", "EAAB", Alnum, 80, ANY),
    token("plaid_token", "access-production-", Dashed, 36, 36),
    token("plaid_token", "access-development-", Dashed, 36, 36),
    token("plaid_token", "access-sandbox-", Dashed, 36, 36),
    token("flutterwave_key", "FLWSECK_TEST-", Dashed, 32, 40),
    token("flutterwave_key", "FLWSECK-", Dashed, 32, 64),
    token("easypost_key", "EZAK", Alnum, 54, 54),
    token("easypost_key", "EZTK", Alnum, 54, 54),
    token("shippo_token", "shippo_live_", Hex, 40, 40),
    token("shippo_token", "shippo_test_", Hex, 40, 40),
    token("duffel_token", "duffel_live_", Base64, 43, 43),
    token("duffel_token", "duffel_test_", Base64, 43, 43),
    // Project and work management.
    token("linear_key", "lin_api_", Alnum, 32, 64),
    token("linear_key", "lin_oauth_", Alnum, 40, 80),
    token("notion_token", "secret_", Alnum, 43, 43),
    token("notion_token", "ntn_", Alnum, 40, 60),
    token("figma_token", "figd_", Dashed, 36, 80),
    token("postman_key", "PMAK-", Dashed, 50, 80),
    token("typeform_token", "tfp_", Dotted, 40, 80),
    token("airtable_token", "pat", Dotted, 79, 79),
    token("contentful_token", "CFPAT-", Dashed, 40, 64),
    token("hubspot_token", "pat-na1-", Dashed, 36, 36),
    token("hubspot_token", "pat-eu1-", Dashed, 36, 36),
    token("frameio_token", "fio-u-", Dashed, 60, 80),
    token("readme_key", "rdme_", Alnum, 70, 70),
    token("adobe_secret", "p8e-", Alnum, 32, 32),
    token("mapbox_token", "sk.eyJ", Dotted, 60, 200),
    token("settlemint_token", "sm_aat_", Alnum, 16, 16),
    token("settlemint_token", "sm_pat_", Alnum, 16, 16),
    token("settlemint_token", "sm_sat_", Alnum, 16, 16),
    sure("dynatrace_token", "dt0c01.", Dotted, 80, 100),
    sure("dynatrace_token", "dt0s01.", Dotted, 64, 100),
    sure("dynatrace_token", "dt0s02.", Dotted, 64, 100),
    sure("dynatrace_token", "dt0s16.", Dotted, 64, 100),
    token("sentry_token", "sntrys_", Base64, 60, ANY),
    token("sentry_token", "sntryu_", Hex, 64, 64),
    token("grafana_token", "glsa_", Word, 38, 60),
    token("grafana_token", "glc_", Base64, 40, 400),
    token("newrelic_key", "NRAK-", Alnum, 27, 27),
    token("posthog_key", "phx_", Alnum, 40, 80),
    // Secret stores and networks.
    sure("vault_token", "hvs.", Dashed, 24, 300),
    token("vault_token", "hvb.", Dashed, 60, 300),
    token("doppler_token", "dp.pt.", Alnum, 40, 50),
    token("doppler_token", "dp.st.", Dotted, 40, 100),
    token("doppler_token", "dp.ct.", Alnum, 40, 50),
    token("doppler_token", "dp.sa.", Alnum, 40, 50),
    token("doppler_token", "dp.scim.", Alnum, 40, 50),
    token("doppler_token", "dp.audit.", Alnum, 40, 50),
    token("onepassword_token", "ops_eyJ", Base64, 100, ANY),
    token("tailscale_key", "tskey-", Dashed, 20, 100),
    token("decklog_token", "dl_", Hex, 64, 64),
    sure("age_key", "AGE-SECRET-KEY-1", Upper, 58, 58),
    token("fly_token", "FlyV1 fm", Base64, 60, ANY),
    token("fly_token", "fo1_", Dashed, 43, 43),
    token("fly_token", "fm1a_", Base64, 100, ANY),
    token("fly_token", "fm1r_", Base64, 100, ANY),
    token("fly_token", "fm2_", Base64, 100, ANY),
];

impl Token {
    /// Alphabet, minimum and maximum length of the part after the prefix.
    #[cfg(test)]
    pub(super) fn body(&self) -> (Class, usize, usize) {
        (self.alphabet, self.least, self.most)
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
        let stress = strokes(text[..at].iter().rev());
        let run = &run[..run.len() - strokes(run.iter().rev()).min(stress)];
        let stops = run.iter().rev().take(STOPS_MAX);
        let len = run.len() - stops.take_while(|byte| **byte == b'.').count();
        let rest = &body[len..];
        let rest = &rest[strokes(rest.iter()).min(stress)..];
        let ends = rest.first().is_none_or(|next| !Word.has(*next));
        let is_token = (self.least..=self.most).contains(&len)
            && ends
            && if self.is_sure {
                is_no_placeholder(&body[..len])
            } else {
                is_random(&body[..len])
            };
        is_token.then_some(Found {
            name: self.name,
            start: at,
            end: start + len,
        })
    }
}

/// Number of leading `_`, up to the number that Markdown emphasis uses.
fn strokes<'a>(bytes: impl Iterator<Item = &'a u8>) -> usize {
    const MARKS_MAX: usize = 3;
    bytes
        .take(MARKS_MAX)
        .take_while(|byte| **byte == b'_')
        .count()
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

/// Rules whose anchor is in the same run as at least 16 bytes of a key, like a prefix.
pub(super) const RUNS: &[Context] = &[
    // `{"`, with an optional blank or line break after the brace.
    Context {
        anchors: &["eyJ", "eyA", "ewo", "ew0"],
        look: One(context::jwt),
    },
    // `-----BEGIN`
    Context {
        anchors: &["LS0tLS1CRUdJTi"],
        look: One(context::encoded_key),
    },
    Context {
        anchors: &[".atlasv1."],
        look: One(context::terraform_token),
    },
    Context {
        anchors: &["-us"],
        look: One(context::mailchimp_key),
    },
    Context {
        anchors: &["hooks.slack.com/", "/api/webhooks/"],
        look: One(context::webhook),
    },
    Context {
        anchors: &[":AA"],
        look: One(context::telegram_token),
    },
    Context {
        anchors: &["7Q~", "8Q~"],
        look: One(context::azure_secret),
    },
    // The digits of an id, in base64.
    Context {
        anchors: &["MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"],
        look: One(context::discord_token),
    },
    Context {
        anchors: &["re_"],
        look: One(context::resend_key),
    },
    Context {
        anchors: &["SK"],
        look: One(context::twilio_key),
    },
];

/// Rules whose anchor is in a word next to the secret. The search sees only the first three bytes
/// of an anchor, so these should be rare in other words.
pub(super) const WORDS: &[Context] = &[
    Context {
        anchors: &["PRIVATE KEY"],
        look: One(context::private_key),
    },
    Context {
        anchors: &["ig="],
        look: One(context::azure_signature),
    },
    Context {
        anchors: &["://"],
        look: One(context::url_password),
    },
    Context {
        anchors: &["kie", "KIE"],
        look: All(context::cookies),
    },
    Context {
        anchors: &["curl "],
        look: One(context::curl_password),
    },
    Context {
        anchors: &[" -p", " -a", " -P", " -w", " -S"],
        look: One(context::option_password),
    },
    Context {
        anchors: &["auth=(", "Auth("],
        look: One(context::basic_auth_password),
    },
    Context {
        anchors: &[":5432:", ":*:"],
        look: One(context::pgpass_password),
    },
    Context {
        anchors: &[":thin:"],
        look: One(context::oracle_password),
    },
    Context {
        anchors: &["@tcp(", "@unix("],
        look: One(context::driver_password),
    },
    Context {
        anchors: &["TIFIED BY", "tified by", "TIFIED WITH", "tified with"],
        look: One(context::identified_by),
    },
    Context {
        anchors: &["rer ", "RER "],
        look: One(context::bearer),
    },
    Context {
        anchors: &["sic ", "SIC "],
        look: One(context::basic),
    },
    Context {
        anchors: &[
            "pass",
            "Pass",
            "PASS",
            "pwd",
            "Pwd",
            "PWD",
            "psk",
            "PSK",
            "ecret",
            "ECRET",
            "oken",
            "OKEN",
            "_key",
            "-key",
            "ikey",
            "skey",
            "Key",
            "KEY",
            "rization",
            "RIZATION",
            "_auth",
            "\"auth",
            "nnwort",
            "NNWORT",
            "rasena",
            "RASENA",
            "seña",
            "SEÑA",
            "enha",
            "ENHA",
            "twoord",
            "TWOORD",
            "asło",
            "ASŁO",
            "пароль",
            "Пароль",
            "ПАРОЛЬ",
            "密码",
            "密碼",
            "パスワード",
        ],
        look: All(context::assignments),
    },
];
