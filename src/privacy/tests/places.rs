//! Secrets in various places: defaults in code, input of commands, password files, elements and
//! forms, and other languages.

use super::*;

/// The rows whose secret is kept, or in which more than the secret is redacted.
fn missed<'a>(rows: &[(&'a str, &str)]) -> Vec<(&'a str, String)> {
    let mut missed = Vec::new();
    for (text, secret) in rows {
        let kept = defaults(text);
        let (before, after) = text.split_once(secret).unwrap();
        let is_found = kept.starts_with(before) && kept.ends_with(after) && !kept.contains(secret);
        let json = serde_json::json!({ "out": text, "n": 1 }).to_string();
        let now: serde_json::Value = serde_json::from_str(&defaults(&json)).unwrap();
        if !is_found || now["out"] != kept.as_str() || defaults(&kept) != kept {
            missed.push((*text, format!("{kept} in JSON {now}")));
        }
    }
    missed
}

fn changed<'a>(rows: &[&'a str]) -> Vec<(&'a str, String)> {
    let rows = rows.iter().map(|text| (*text, defaults(text)));
    rows.filter(|(text, kept)| text != kept).collect()
}

#[test]
fn what_stands_in_for_a_variable() {
    let rows = [
        ("pw = process.env.DB_PASSWORD || \"kX9vbT2wq\"", "kX9vbT2wq"),
        ("pw = process.env.DB_PASSWORD ?? 'kX9vbT2wq';", "kX9vbT2wq"),
        (
            "pw = process.env['DB_PASSWORD'] || 'kX9vbT2wq'",
            "kX9vbT2wq",
        ),
        (
            "password: process.env.DB_PASSWORD || 'kX9vbT2wq',",
            "kX9vbT2wq",
        ),
        ("password = config.password ?? 'kX9vbT2wq'", "kX9vbT2wq"),
        (
            "os.environ.get(\"X_SECRET\", \"k3Vb9xQ2mT7pL\")",
            "k3Vb9xQ2mT7pL",
        ),
        ("os.getenv('DB_PASSWORD', 'kX9vbT2wq')", "kX9vbT2wq"),
        ("os.environ.get('DB_PASSWORD') or 'kX9vbT2wq'", "kX9vbT2wq"),
        ("$p = getenv('X_PASSWORD') ?: 'kX9vbT2wq';", "kX9vbT2wq"),
        ("$_ENV['X_PASSWORD'] ?? 'kX9vbT2wq'", "kX9vbT2wq"),
        ("ENV['X_PASSWORD'] || 'kX9vbT2wq'", "kX9vbT2wq"),
        ("ENV.fetch('X_PASSWORD') { 'kX9vbT2wq' }", "kX9vbT2wq"),
        ("process.env.DB_PASSWORD ||\n  'kX9vbT2wq'", "kX9vbT2wq"),
        ("process.env.DB_PASSWORD\n  || 'kX9vbT2wq'", "kX9vbT2wq"),
        ("psql -W ${DB_PASSWORD:-kX9vbT2wq}", "kX9vbT2wq"),
        (
            "    POSTGRES_PASSWORD: ${DB_PASSWORD:-kX9vbT2wq}\n",
            "kX9vbT2wq",
        ),
        ("DB_PASSWORD=${DB_PASSWORD:-hunterstwo}", "hunterstwo"),
        ("DB_PASSWORD=\"${DB_PASSWORD:=kX9vbT2wq}\"", "kX9vbT2wq"),
        ("x=\"${DB_PASSWORD-kX9vbT2wq}\"", "kX9vbT2wq"),
        ("spring.password: ${DB_PASSWORD:kX9vbT2wq}", "kX9vbT2wq"),
    ];
    assert_eq!(missed(&rows), []);
    let rows = [
        "process.env.DB_PASSWORD || ''",
        "process.env.DB_PASSWORD || fallback2",
        "process.env.DB_PASSWORD || 'changeme'",
        "if (password || 'x1') {}",
        "os.environ.get('X_SECRET', None)",
        "${DB_PASSWORD:-}",
        "${DB_PASSWORD:-$OTHER_PW1}",
        "${DB_PASSWORD:-password}",
        "${DB_PASSWORD:?must be set to 8+}",
        "${DB_PASSWORD:+--password1}",
        "${DB_PASSWORD}",
        "${max_tokens:-4096}",
        "password || 'Password is required'",
    ];
    assert_eq!(changed(&rows), []);
}

#[test]
fn what_commands_and_files_of_passwords_have() {
    let rows = [
        (
            "echo kX9vbT2wq | docker login -u me --password-stdin",
            "kX9vbT2wq",
        ),
        (
            "echo 'kX9vbT2wq' | docker login --password-stdin r.io",
            "kX9vbT2wq",
        ),
        (
            "printf '%s' \"kX9vbT2wq\" | helm registry login --password-stdin",
            "kX9vbT2wq",
        ),
        (
            "$ echo -n hunterstwo | docker login \\\n  --password-stdin",
            "hunterstwo",
        ),
        ("db.example.org:5432:app:joe:kX9vbT2wq", "kX9vbT2wq"),
        ("# ~/.pgpass\n*:*:*:joe:kX9vbT2wq\n", "kX9vbT2wq"),
        (
            "echo 'localhost:5432:*:joe:kX9vbT2wq' > ~/.pgpass",
            "kX9vbT2wq",
        ),
        ("echo 'joe:kX9vbT2wq' | chpasswd", "kX9vbT2wq"),
        ("echo \"root:hunterstwo\" | sudo chpasswd", "hunterstwo"),
        (
            "<property name=\"password\">kX9vbT2wq</property>",
            "kX9vbT2wq",
        ),
        ("<entry key='db.password'>hunterstwo</entry>", "hunterstwo"),
        (
            "<property name=\"password\" value=\"kX9vbT2wq\"/>",
            "kX9vbT2wq",
        ),
        ("echo 'kX9vbT2wq' | sudo -S apt update", "kX9vbT2wq"),
        ("echo hunterstwo | sudo -S -p '' id", "hunterstwo"),
        ("requests.get(u, auth=('admin', 'kX9vbT2wq'))", "kX9vbT2wq"),
        ("auth=HTTPBasicAuth(\"admin\",\"kX9vbT2wq\")", "kX9vbT2wq"),
        (
            "Content-Disposition: form-data; name=\"password\"\r\n\r\nkX9vbT2wq\r\n--b",
            "kX9vbT2wq",
        ),
        (
            "Content-Disposition: form-data; name=\"token\"\n\nk3Vb9xQ2mT7pL\n--b",
            "k3Vb9xQ2mT7pL",
        ),
        (
            "form-data; name=\"secret\"\r\nContent-Type: text/plain\r\n\r\nk3Vb9xQ2mT7pL\r\n",
            "k3Vb9xQ2mT7pL",
        ),
    ];
    assert_eq!(missed(&rows), []);
    let rows = [
        "echo $TOKEN2 | docker login --password-stdin",
        "echo \"$DOCKER_PASSWORD\" | docker login --password-stdin",
        "cat ~/pw1.txt | docker login --password-stdin",
        "echo ${{ secrets.TOKEN1 }} | docker login --password-stdin",
        "aws ecr get-login-password --region eu-1 | docker login --password-stdin",
        "echo build12 done; docker login --password-stdin < pw1",
        "echo yes1234x | apt-get -S install",
        "echo $PW1 | sudo -S id",
        "requests.get(u, auth=(user, password1))",
        "requests.get(u, auth=('user', os.environ['PW1']))",
        "RequireAuth('admin', 'editor2')",
        "hostname:port:database:username:password",
        "localhost:5432:app:joe:$PGPASS1",
        "echo \"$USER:$PASS1\" | chpasswd",
        "src/a.rs:12:5:error:E0308x",
        "12:30:45:678:abc123",
        "the method identified by `algorithm`, identified by `k8sObject1`",
        "form-data; name=\"password\"; filename=\"a1\"",
        "<property name=\"password\">${db.password1}</property>",
        "<label name=\"password\">Password 1</label>",
        "<label for=\"password\">Enter8more</label>",
    ];
    assert_eq!(changed(&rows), []);
}

#[test]
fn passwords_in_other_languages() {
    let rows = [
        ("Passwort: kX9vbT2wq", "kX9vbT2wq"),
        ("Kennwort: kX9vbT2wq", "kX9vbT2wq"),
        ("mot de passe : kX9vbT2wq", "kX9vbT2wq"),
        ("Mot de passe: kX9vbT2wq", "kX9vbT2wq"),
        ("mot_de_passe = \"kX9vbT2wq\"", "kX9vbT2wq"),
        ("motDePasse: 'kX9vbT2wq'", "kX9vbT2wq"),
        ("contraseña: kX9vbT2wq", "kX9vbT2wq"),
        ("Contraseña=kX9vbT2wq", "kX9vbT2wq"),
        ("contrasena = 'kX9vbT2wq'", "kX9vbT2wq"),
        ("senha: kX9vbT2wq", "kX9vbT2wq"),
        ("db_senha=kX9vbT2wq", "kX9vbT2wq"),
        ("wachtwoord: kX9vbT2wq", "kX9vbT2wq"),
        ("hasło: kX9vbT2wq", "kX9vbT2wq"),
        ("Пароль: kX9vbT2wq", "kX9vbT2wq"),
        ("пароль = kX9vbT2wq", "kX9vbT2wq"),
        ("密码：kX9vbT2wq", "kX9vbT2wq"),
        ("密码: kX9vbT2wq", "kX9vbT2wq"),
        ("パスワード：kX9vbT2wq", "kX9vbT2wq"),
        ("パスワードは kX9vbT2wq", "kX9vbT2wq"),
        ("{\"contraseña\": \"kX9vbT2wq\"}", "kX9vbT2wq"),
        ("the password is kX9vbT2wq.", "kX9vbT2wq"),
        ("The password was Summer4821!", "Summer4821!"),
        ("the password is now hunter#two", "hunter#two"),
        ("das Passwort ist kX9vbT2wq", "kX9vbT2wq"),
        ("the password was changed to kX9vbT2wq", "kX9vbT2wq"),
    ];
    assert_eq!(missed(&rows), []);
    let rows = [
        "the password is required",
        "the password was changed",
        "the password is 8 characters long",
        "the password was reset in 2024-11-05",
        "das Passwort ist falsch",
        "Kennwort: erforderlich",
        "mot de passe : obligatoire",
        "contraseña: incorrecta",
        "senha: obrigatória",
        "wachtwoord: vergeten",
        "hasło: wymagane",
        "Пароль: обязательно",
        "密码：不能为空",
        "パスワード：必須",
        "desenhar = 12345678a",
    ];
    assert_eq!(changed(&rows), []);
}

#[test]
fn types_and_constants_are_no_secrets() {
    let rows = [
        "authorization: AuthorizationRef",
        "pub authorization: AuthorizationRef2,",
        "authorization: Option<AuthorizationRefV2>",
        "authorization = authorizationHeader2",
        "const X_PASSWORD: u32 = 4097u32;",
        "pub const ERROR_INVALID_PASSWORD: u32 = 1216u32;",
        "X_PASSWORD: i32 = -4097i32",
        "X_PASSWORD = 0x1001u32",
        "#define X_PASSWORD 0x1001UL",
        "X_PASSWORD = 0x00001001",
        "X_TOKEN: u64 = 18446744073709551615u64",
        "X_PASSWORD = 4097ULL;",
    ];
    assert_eq!(changed(&rows), []);
    let rows = [
        ("authorization: k3Vb9xQ2mT7pLw8", "k3Vb9xQ2mT7pLw8"),
        ("X_PASSWORD=4097u32kq", "4097u32kq"),
    ];
    assert_eq!(missed(&rows), []);
}

#[test]
fn what_stands_in_for_an_expression() {
    let rows = [
        (
            "const password = process.env.P || \"kX9vbT2wq\";",
            "kX9vbT2wq",
        ),
        ("const password = process.env.P ?? 'kX9vbT2wq'", "kX9vbT2wq"),
        (
            "const password =\n  process.env.P\n  || 'kX9vbT2wq';",
            "kX9vbT2wq",
        ),
        (
            "password = os.environ.get(\"P\", \"kX9vbT2wq\")",
            "kX9vbT2wq",
        ),
        (
            "password = os.environ.get(\"P\") or \"kX9vbT2wq\"",
            "kX9vbT2wq",
        ),
        ("password = ENV[\"P\"] || \"kX9vbT2wq\"", "kX9vbT2wq"),
        ("$password = getenv(\"P\") ?: \"kX9vbT2wq\";", "kX9vbT2wq"),
        ("'password' => env('P', 'kX9vbT2wq'),", "kX9vbT2wq"),
        (
            "p.add_argument(\"--password\", default=\"kX9vbT2wq\")",
            "kX9vbT2wq",
        ),
        (
            "p.add_argument(\n    \"--password\",\n    type=str,\n    default=\"kX9vbT2wq\",\n)",
            "kX9vbT2wq",
        ),
        (
            "variable \"db_password\" {\n  type    = string\n  default = \"kX9vbT2wq\"\n}",
            "kX9vbT2wq",
        ),
        ("var dbPassword string = \"kX9vbT2wq\"", "kX9vbT2wq"),
        ("char password[] = \"kX9vbT2wq\";", "kX9vbT2wq"),
        ("char password[16] = \"kX9vbT2wq\";", "kX9vbT2wq"),
        ("password = \"\"\"kX9vbT2wq\"\"\"", "kX9vbT2wq"),
        ("passwords: [\"kX9vbT2wq\"]", "kX9vbT2wq"),
        ("passwords = [\"a\", \"kX9vbT2wq\", \"b\"]", "kX9vbT2wq"),
        ("password: ['kX9vbT2wq']", "kX9vbT2wq"),
        ("DB_PASSWORD ?= kX9vbT2wq", "kX9vbT2wq"),
        ("password: &p kX9vbT2wq\nb: *p", "kX9vbT2wq"),
    ];
    assert_eq!(missed(&rows), []);
    let rows = [
        "password = os.environ.get(\"DB_PW1\")",
        "password = os.environ.get(\"P\", \"changeme\")",
        "password = prompt(\"Enter1\", \"8characters\")",
        "password = f(x), \"abc123def\"",
        "password = a; b || \"abc123def\"",
        "if (password) { x = y || \"abc123def\" }",
        "password = None or \"\"",
        "p.add_argument(\"--password\", default=None), (\"abc123def\")",
        "p.add_argument(\"--password\", help=\"by default abc123def\")",
        "variable \"db_password\" {\n  type = string\n}\nx = \"default=abc123\"",
        "var password string",
        "password[i] == \"abc123def\"",
        "required: [\"password\", \"name\"]",
        "Win32_Security_Authorization = [\"Win32_Security\"]",
        "passwords: [\"required\", \"min:8\"]",
        "oauth_secret=secret%3Dpassword&x=lock%26key",
    ];
    assert_eq!(changed(&rows), []);
}

#[test]
fn shapes_of_documents() {
    let rows = [
        (
            "{\"X-Api-Key\":[\"k3Vb9xQ2mT7pL\"],\"A\":[\"b\"]}",
            "k3Vb9xQ2mT7pL",
        ),
        (
            "{\"Cookie\":[\"sid=k3Vb9xQ2mT7pLw8s\"]}",
            "k3Vb9xQ2mT7pLw8s",
        ),
        ("{\"password\":[\"kX9vbT2wq\"]}", "kX9vbT2wq"),
        ("{\"passwords\": [\"a\", \"kX9vbT2wq\"]}", "kX9vbT2wq"),
        ("{\"password\":{\"value\":\"kX9vbT2wq\"}}", "kX9vbT2wq"),
        (
            "{\"password\": {\n  \"type\": \"text\",\n  \"value\": \"kX9vbT2wq\"}}",
            "kX9vbT2wq",
        ),
        (
            "{\"value\":\"k3Vb9xQ2mT7pL\",\"name\":\"API_TOKEN\"}",
            "k3Vb9xQ2mT7pL",
        ),
        (
            "{\"id\": \"a\", \"Value\": \"k3Vb9xQ2mT7pL\", \"Key\": \"API_TOKEN\"}",
            "k3Vb9xQ2mT7pL",
        ),
        (
            "env:\n  - value: k3Vb9xQ2mT7pL\n    name: API_TOKEN\n",
            "k3Vb9xQ2mT7pL",
        ),
        (
            "x { value = \"a\", value: \"k3Vb9xQ2mT7pL\", name: \"API_TOKEN\" ",
            "k3Vb9xQ2mT7pL",
        ),
        ("{\"password\":74839201847562}", "74839201847562"),
        ("[\"psql\",\"-password\",\"kX9vbT2wq\"]", "kX9vbT2wq"),
        (
            "<wsse:Password Type=\"x\">kX9vbT2wq</wsse:Password>",
            "kX9vbT2wq",
        ),
        ("<password><![CDATA[kX9vbT2wq]]></password>", "kX9vbT2wq"),
        (
            "<key>password</key>\n\t<string>kX9vbT2wq</string>",
            "kX9vbT2wq",
        ),
    ];
    assert_eq!(missed(&rows), []);
    let rows = [
        "{\"password\":[\"required\",\"confirmed\",\"min:8\"]}",
        "{\"password\":[\"This field is required.\"]}",
        "{\"password\":{\"type\":\"string2\",\"minLength\":8}}",
        "{\"password\": 1, \"passes\": 74839201847562}",
        "{\"tokens\":[\"k3Vb9xQ2mT7pL\"],\"token\":748392018}",
        "{\"value\":\"k3Vb9xQ2mT7pL\",\"name\":\"next_page_token\"}",
        "{\"value\":\"k3Vb9xQ2mT7pL\",\"name\":\"a\"},{\"name\":\"API_TOKEN\"}",
        "- value: a1\n  name: API_TOKEN\n",
        "<password hint=\"a1\"/><b>abc123def</b>",
        "<key>password</key><integer>748392018</integer>",
    ];
    assert_eq!(changed(&rows), []);
}

#[test]
fn settings_and_terminals() {
    let hex = "67e55044c0b1426f9247bb680e5fe0c8".repeat(4);
    let key = "zzgEOzdmenCkhvMdgaKjIg8x/be3nNyjOq9wMxEh";
    let row = |form: &str, secret: &'static str| (form.replace("{}", secret), secret);
    let rules = "Key         Value\n---         -----\n";
    let owned = [
        (format!("  secret_key_base: {hex}\n"), &hex[..]),
        row("AWS Secret Access Key [None]: {}\n", key),
        row("AWS Secret Access Key [****************MPLE]: {}\n", key),
        row(
            "      Name      Value   Type\n      ----      -----   ----\nsecret_key     {} shared-credentials-file\n",
            key,
        ),
        row(
            &format!("====== Data ======\n{rules}password    {{}}\nusername    joe\n"),
            "kX9vbT2wq",
        ),
    ];
    let rows: Vec<(&str, &str)> = owned
        .iter()
        .map(|(text, secret)| (&text[..], *secret))
        .collect();
    assert_eq!(missed(&rows), []);
    let rows = [
        ("requirepass kX9vbT2wq", "kX9vbT2wq"),
        ("    psk=\"kX9vbT2wq\"\n", "kX9vbT2wq"),
        ("SSHPASS=kX9vbT2wq sshpass -e ssh x", "kX9vbT2wq"),
        ("Driver=x;UID=u;PWD={kX9vbT2wq};", "kX9vbT2wq"),
        ("jdbc:oracle:thin:scott/kX9vbT2wq@//h:1521/x", "kX9vbT2wq"),
        ("jdbc:oracle:thin:scott/kX9vbT2wq@h:1521:x", "kX9vbT2wq"),
        ("    storePassword \"kX9vbT2wq\"", "kX9vbT2wq"),
        ("    keyPassword 'kX9vbT2wq'", "kX9vbT2wq"),
    ];
    assert_eq!(missed(&rows), []);
    let table = format!("{rules}password    string\nsecret      k8s.io/token\n");
    let rows = [
        &table[..],
        "my-token    1.0.3rc12\nNAME        VERSION\n",
        "sshpass=1.09-1+b1",
        "sshpass: 1.09-1+b1",
        "key_mgmt=WPA-PSK\nproto=RSN2\n",
        "requirepass foobared",
        "jdbc:oracle:thin:@//h1:1521/x",
        "jdbc:oracle:thin:scott/${PASS_1}@//h:1521/x",
        "<input password={value1}; />",
        "password [y/N1]: ",
    ];
    assert_eq!(changed(&rows), []);
}

#[test]
fn a_label_far_before_a_name_ends_nothing() {
    for blanks in 30..36 {
        let text = format!("name:{}password", " ".repeat(blanks));
        assert_eq!(defaults(&text), text);
    }
}
