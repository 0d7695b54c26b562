//! The forms of secrets: keys and tokens that begin with a prefix of their provider, as a table.
//! Those that only their surroundings give away are in `context`.

use super::text::{is_random, starts_word};
use super::{Found, context};

/// What a secret that begins with a prefix looks like.
pub(super) struct Token {
    /// What the placeholder says.
    pub name: &'static str,
    pub prefix: &'static str,
    /// What may follow the prefix.
    alphabet: fn(u8) -> bool,
    /// How many bytes of it must, and may, follow.
    least: usize,
    most: usize,
}

/// The most of a token without a length of its own.
const ANY: usize = 1 << 14;

const fn token(
    name: &'static str,
    prefix: &'static str,
    alphabet: fn(u8) -> bool,
    least: usize,
    most: usize,
) -> Token {
    Token {
        name,
        prefix,
        alphabet,
        least,
        most,
    }
}

fn alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn dashed(byte: u8) -> bool {
    word(byte) || byte == b'-'
}

fn dotted(byte: u8) -> bool {
    dashed(byte) || byte == b'.'
}

fn base64(byte: u8) -> bool {
    dashed(byte) || matches!(byte, b'+' | b'/' | b'=')
}

/// A prefix that begins like another one comes first.
pub(super) const TOKENS: &[Token] = &[
    // Models and what runs them.
    token("anthropic_key", "sk-ant-", dashed, 24, ANY),
    token("openrouter_key", "sk-or-v1-", hex, 40, ANY),
    token("langfuse_key", "sk-lf-", dashed, 30, 64),
    token("openai_key", "sk-proj-", dashed, 24, ANY),
    token("openai_key", "sk-svcacct-", dashed, 24, ANY),
    token("openai_key", "sk-admin-", dashed, 24, ANY),
    token("openai_key", "sk-None-", dashed, 24, ANY),
    token("openai_key", "sk-", alnum, 32, 164),
    token("huggingface_token", "hf_", alnum, 30, 64),
    token("huggingface_token", "api_org_", alnum, 30, 64),
    token("replicate_token", "r8_", alnum, 30, 64),
    token("groq_key", "gsk_", alnum, 40, 80),
    token("xai_key", "xai-", alnum, 60, 120),
    token("perplexity_key", "pplx-", alnum, 40, 80),
    token("cerebras_key", "csk-", alnum, 40, 80),
    token("fireworks_key", "fw_", alnum, 22, 64),
    token("nvidia_key", "nvapi-", dashed, 50, 120),
    token("together_key", "tgp_v1_", dashed, 32, 80),
    token("langsmith_key", "lsv2_", word, 32, 80),
    token("tavily_key", "tvly-", dashed, 28, 80),
    token("jina_key", "jina_", dashed, 40, 120),
    token("e2b_key", "e2b_", hex, 32, 64),
    // Clouds.
    token("aws_access_key", "AKIA", upper, 16, 16),
    token("aws_access_key", "ASIA", upper, 16, 16),
    token("google_api_key", "AIza", dashed, 35, 35),
    token("google_secret", "GOCSPX-", dashed, 24, 40),
    token("google_token", "ya29.", dotted, 24, ANY),
    token("google_token", "1//0", dashed, 40, 256),
    token("azure_key", "AccountKey=", base64, 40, 120),
    token("azure_key", "SharedAccessKey=", base64, 40, 120),
    token("digitalocean_token", "dop_v1_", hex, 64, 64),
    token("digitalocean_token", "doo_v1_", hex, 64, 64),
    token("digitalocean_token", "dor_v1_", hex, 64, 64),
    token("alibaba_key", "LTAI", alnum, 12, 26),
    token("databricks_token", "dapi", hex, 32, 32),
    token("supabase_key", "sbp_", hex, 40, 64),
    token("supabase_key", "sb_secret_", dashed, 22, 64),
    token("heroku_key", "HRKU-", dashed, 36, 80),
    token("netlify_token", "nfp_", alnum, 32, 64),
    token("planetscale_token", "pscale_", dotted, 32, 80),
    token("render_key", "rnd_", alnum, 24, 64),
    // Code and packages.
    token("github_token", "ghp_", alnum, 30, 255),
    token("github_token", "gho_", alnum, 30, 255),
    token("github_token", "ghu_", dotted, 30, ANY),
    token("github_token", "ghs_", dotted, 30, ANY),
    token("github_token", "ghr_", dotted, 30, ANY),
    token("github_token", "github_pat_", word, 40, 255),
    token("gitlab_token", "glpat-", dotted, 20, 320),
    token("gitlab_token", "gldt-", dashed, 20, 64),
    token("gitlab_token", "glrt-", dotted, 20, 320),
    token("gitlab_token", "glrtr-", dotted, 20, 320),
    token("gitlab_token", "glptt-", alnum, 40, 64),
    token("gitlab_token", "glft-", dashed, 20, 80),
    token("gitlab_token", "glsoat-", dashed, 20, 64),
    token("gitlab_token", "glcbt-", dashed, 20, 80),
    token("gitlab_token", "glimt-", dashed, 25, 64),
    token("gitlab_token", "glagent-", dashed, 50, 80),
    token("gitlab_token", "gloas-", alnum, 64, 64),
    token("gitlab_token", "glffct-", dashed, 20, 64),
    token("gitlab_token", "GR1348941", dashed, 20, 40),
    token("bitbucket_token", "ATBB", alnum, 28, 36),
    token("atlassian_token", "ATATT3", base64, 60, 256),
    token("npm_token", "npm_", alnum, 36, 36),
    token("pypi_token", "pypi-AgE", dashed, 50, ANY),
    token("rubygems_key", "rubygems_", hex, 48, 48),
    token("docker_token", "dckr_pat_", dashed, 24, 64),
    token("docker_token", "dckr_oat_", dashed, 24, 64),
    token("circleci_token", "CCIPAT_", word, 40, 80),
    token("buildkite_token", "bkua_", alnum, 40, 40),
    token("pulumi_token", "pul-", hex, 40, 40),
    // Talk, mail and money.
    token("slack_token", "xoxe.xox", dotted, 30, 400),
    token("slack_token", "xoxa-", dashed, 20, 400),
    token("slack_token", "xoxb-", dashed, 20, 400),
    token("slack_token", "xoxe-", dashed, 20, 400),
    token("slack_token", "xoxp-", dashed, 20, 400),
    token("slack_token", "xoxr-", dashed, 20, 400),
    token("slack_token", "xoxs-", dashed, 20, 400),
    token("slack_token", "xapp-", dashed, 30, 400),
    token("stripe_key", "sk_live_", word, 16, 255),
    token("stripe_key", "sk_test_", word, 16, 255),
    token("stripe_key", "rk_live_", word, 16, 255),
    token("stripe_key", "rk_test_", word, 16, 255),
    token("webhook_secret", "whsec_", base64, 24, 128),
    token("sendgrid_key", "SG.", dotted, 50, 80),
    token("mailgun_key", "key-", hex, 32, 32),
    token("brevo_key", "xkeysib-", dashed, 60, 100),
    token("shopify_token", "shpat_", hex, 32, 32),
    token("shopify_token", "shpca_", hex, 32, 32),
    token("shopify_token", "shppa_", hex, 32, 32),
    token("shopify_token", "shpss_", hex, 32, 32),
    token("square_token", "sq0csp-", dashed, 40, 60),
    // Work.
    token("linear_key", "lin_api_", alnum, 32, 64),
    token("linear_key", "lin_oauth_", alnum, 40, 80),
    token("notion_token", "secret_", alnum, 43, 43),
    token("notion_token", "ntn_", alnum, 40, 60),
    token("figma_token", "figd_", dashed, 36, 80),
    token("postman_key", "PMAK-", dashed, 50, 80),
    token("sentry_token", "sntrys_", base64, 60, ANY),
    token("sentry_token", "sntryu_", hex, 64, 64),
    token("grafana_token", "glsa_", word, 38, 60),
    token("grafana_token", "glc_", base64, 40, 400),
    token("newrelic_key", "NRAK-", alnum, 27, 27),
    token("posthog_key", "phx_", alnum, 40, 80),
    // What keeps secrets and networks.
    token("vault_token", "hvs.", dashed, 24, 300),
    token("vault_token", "hvb.", dashed, 60, 300),
    token("doppler_token", "dp.pt.", alnum, 40, 50),
    token("onepassword_token", "ops_eyJ", base64, 100, ANY),
    token("tailscale_key", "tskey-", dashed, 20, 100),
    token("age_key", "AGE-SECRET-KEY-1", upper, 58, 58),
    token("fly_token", "FlyV1 fm", base64, 60, ANY),
];

impl Token {
    /// The token whose prefix is at `at`. A run that is longer than any such token is none.
    pub(super) fn found(&self, text: &[u8], at: usize) -> Option<Found> {
        let body = text.get(at..)?.strip_prefix(self.prefix.as_bytes())?;
        if !starts_word(text, at) {
            return None;
        }
        let run = body.iter().take(self.most + 1);
        let mut len = run.take_while(|byte| (self.alphabet)(**byte)).count();
        while len > 0 && body[len - 1] == b'.' {
            len -= 1;
        }
        let ends = body.get(len).is_none_or(|next| !word(*next));
        let found = Found {
            name: self.name,
            start: at,
            end: at + self.prefix.len() + len,
        };
        let is_token = (self.least..=self.most).contains(&len) && ends && is_random(&body[..len]);
        is_token.then_some(found)
    }
}

/// A rule for what its surroundings give away.
pub(super) struct Context {
    /// One of them is in every such text.
    pub anchors: &'static [&'static str],
    /// The secret, given where an anchor is.
    pub found: fn(&context::Place<'_>) -> Option<Found>,
}

/// Those whose anchor is in one run with 16 bytes and more of a key, as a prefix is.
pub(super) const RUNS: &[Context] = &[
    Context {
        anchors: &["eyJ"],
        found: context::jwt,
    },
    Context {
        anchors: &["hooks.slack.com/", "/api/webhooks/"],
        found: context::webhook,
    },
    Context {
        anchors: &[":AA"],
        found: context::telegram_token,
    },
    Context {
        anchors: &["7Q~", "8Q~"],
        found: context::azure_secret,
    },
    // The ids of the last years, in base64.
    Context {
        anchors: &["MTA", "MTE", "MTI", "MTM", "MTQ"],
        found: context::discord_token,
    },
    Context {
        anchors: &["SK"],
        found: context::twilio_key,
    },
];

/// Those whose anchor is in a word that stands beside the secret. The search sees their first three
/// bytes, so these are such as few other words have.
pub(super) const WORDS: &[Context] = &[
    Context {
        anchors: &["PRIVATE KEY"],
        found: context::private_key,
    },
    Context {
        anchors: &["ig="],
        found: context::azure_signature,
    },
    Context {
        anchors: &["://"],
        found: context::url_password,
    },
    Context {
        anchors: &["kie", "KIE"],
        found: context::cookie,
    },
    Context {
        anchors: &["curl "],
        found: context::curl_password,
    },
    Context {
        anchors: &["rer ", "RER "],
        found: context::bearer,
    },
    Context {
        anchors: &["sic ", "SIC "],
        found: context::basic,
    },
    Context {
        anchors: &[
            "pass", "Pass", "PASS", "pwd", "Pwd", "PWD", "ecret", "ECRET", "oken", "OKEN", "_key",
            "-key", "ikey", "skey", "Key", "KEY", "rization", "RIZATION",
        ],
        found: context::assignment,
    },
];
