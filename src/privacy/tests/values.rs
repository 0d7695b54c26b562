//! Values in places where only text is possible, and code that looks similar.

use super::*;

/// The secret is redacted and the text around it is kept, also inside JSON.
fn found(text: &str, secret: &str) {
    let kept = defaults(text);
    let (before, after) = text.split_once(secret).unwrap();
    assert!(
        kept.starts_with(before) && kept.ends_with(after) && !kept.contains(secret),
        "{text:?} became {kept:?}"
    );
    assert_eq!(defaults(&kept), kept);
    let json = serde_json::json!({ "out": text, "n": 1 }).to_string();
    let now: serde_json::Value = serde_json::from_str(&defaults(&json)).unwrap();
    assert_eq!(now["out"], kept.as_str());
}

#[test]
fn a_password_of_letters_or_digits_alone_is_found_where_it_is_text() {
    for (text, secret) in [
        ("DB_PASSWORD=qhzkfwvtrmxn", "qhzkfwvtrmxn"),
        ("DB_PASSWORD=hunterstwo\nA=b", "hunterstwo"),
        ("export PGPASSWORD=correcthorse psql", "correcthorse"),
        ("\"password\": \"hunterstwo\"", "hunterstwo"),
        ("password = 'hunterstwo'", "hunterstwo"),
        ("password: qhzkfwvtrmxn", "qhzkfwvtrmxn"),
        ("db:\n  password: hunterstwo\n  port: 1", "hunterstwo"),
        ("spring.datasource.password=hunterstwo", "hunterstwo"),
        ("[client]\npassword=hunterstwo\n", "hunterstwo"),
        ("Server=db;Password=hunterstwo;Uid=x", "hunterstwo"),
        ("/login?user=a&password=hunterstwo&x=1", "hunterstwo"),
        ("mysql --password=hunterstwo -u x", "hunterstwo"),
        ("docker login -u x -p hunterstwo r.io", "hunterstwo"),
        ("client_secret=zqkfhwvtrmxnbdpl", "zqkfhwvtrmxnbdpl"),
        (
            "\"api_key\": \"zqkfhwvtrmxnbdplqwhg\"",
            "zqkfhwvtrmxnbdplqwhg",
        ),
        ("DB_PASSWORD=48213377", "48213377"),
        ("\"password\": \"48213377\"", "48213377"),
        ("password: 48213377", "48213377"),
        (
            "\"password\": \"correct-horse-battery-staple\"",
            "correct-horse-battery-staple",
        ),
    ] {
        found(text, secret);
    }
}

#[test]
fn a_password_is_found_with_all_its_signs() {
    for (text, secret) in [
        ("DB_PASSWORD=$ecr3t!pw", "$ecr3t!pw"),
        ("DB_PASSWORD='$ecr3t!pw'", "$ecr3t!pw"),
        ("password: \"$ecr3t!pw\"", "$ecr3t!pw"),
        ("password=Summer4821!", "Summer4821!"),
        ("Passwort: kX9vbT2wq", "kX9vbT2wq"),
        ("db_passwort=kX9vbT2wq", "kX9vbT2wq"),
        ("keytool -list -storepass kX9vbT2wq", "kX9vbT2wq"),
        ("keytool -keypass kX9vbT2wq -list", "kX9vbT2wq"),
        ("password is Summer4821!", "Summer4821!"),
        ("DB_PASSWORD=Summer4821?", "Summer4821?"),
        ("DB_PASSWORD=aB3(dE5)x!", "aB3(dE5)x!"),
        ("DB_PASSWORD=x,y9kQwZ7", "x,y9kQwZ7"),
        ("postgres://u:p#a/ss@host/db", "p#a/ss"),
        ("postgres://u:p/ss#w0rd@host:5432/db", "p/ss#w0rd"),
        ("DSN='mysql+pymysql://root:a#b?@h/db'", "a#b?"),
        ("redis://:a/b@cache:6379/0", "a/b"),
    ] {
        found(text, secret);
    }
}

/// Typical passwords of people and of password generators.
#[test]
fn every_sign_of_a_password_is_a_part_of_it() {
    const SECRETS: [&str; 10] = [
        "$BQ8G00oCHzIwtQI",
        "(EnCFOj4K5cZohenY",
        "$n2XtOUMo8KlPwxgE",
        "$NgK5iUHl6HkwW6MM&p4",
        "o1xr&&SfK#GM9$5^O$C#",
        "*bfv#7kW$Pb8778u#su*",
        "Do5R&nC7!b9Clq",
        "gv7&G6*8Bq89",
        "pChYgCfrL1s*pNxnyVmi",
        "cA^Us*d^MlH%UvTC&*#Q",
    ];
    const QUOTED: [&str; 7] = [
        "JWT_SECRET=\"{}\"",
        "SECRET_KEY = '{}'",
        "password=\"{}\"",
        "{\"password\":\"{}\"}",
        "{\"user\": \"a\", \"api_key\": \"{}\"}",
        "sshpass -p '{}' ssh x",
        "curl -u 'joe:{}' h",
    ];
    const UNQUOTED: [&str; 7] = [
        "API_KEY={}",
        "DB_PASSWORD={}\nA=b",
        "password: {}\n",
        "mysql --password={} db",
        "mysql -p{} db",
        "machine h login u password {}",
        "[db]\npassword = {}\n",
    ];
    for secret in SECRETS {
        for form in QUOTED {
            found(&form.replace("{}", secret), secret);
        }
        for form in UNQUOTED {
            // In YAML, shells and code, these also begin other constructs.
            if !secret.starts_with(['$', '*', '(']) {
                found(&form.replace("{}", secret), secret);
            }
        }
        found(&format!("postgres://u:{secret}@h/d"), secret);
        if !secret.contains('#') {
            found(&format!("https://u:{secret}@h/d"), secret);
        }
    }
    found("API_KEY=es&iNV1!KW#VzJ%DC!Iw", "es&iNV1!KW#VzJ%DC!Iw");
    found("DB_PASSWORD=U37e*Fu5&r5qIbWk", "U37e*Fu5&r5qIbWk");
    found("Server=h;Password=T&C0MrAU8urb;", "T&C0MrAU8urb");
    for (text, secret) in [
        ("curl -d \"password=kX9vbT2wq&user=a\" h", "kX9vbT2wq"),
        ("DB_PASSWORD=kX9vbT2wq&user=a", "kX9vbT2wq"),
        ("?password=kX9vbT2wq&debug&x=1", "kX9vbT2wq"),
        ("mysql --password=kX9vbT2wq&& echo", "kX9vbT2wq"),
        ("mysql --password=mrQzWdcSopg7; echo", "mrQzWdcSopg7"),
        ("mysql --password=kX9vbT2wq& echo", "kX9vbT2wq"),
        ("<a href=\"?password=kX9vbT2wq&amp;user=a\">", "kX9vbT2wq"),
        ("redis://:a#b1@h:1,redis://h:2?mail=a@b", "a#b1"),
    ] {
        found(text, secret);
    }
}

#[test]
fn what_names_or_describes_a_password_stays() {
    for text in [
        "DB_PASSWORD=$DB_PASSWORD",
        "DB_PASSWORD=$1",
        "$password = $row[0];",
        "password: \"$password2\"",
        "password: $2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW",
        "DB_PASSWORD=get_password(1)",
        "connect(PASSWORD=args.password)",
        "PASSWORD=os.environ['X1']",
        "connect(host=host, password=dbpassword)",
        "    password=newvalue,\n    user=user,",
        "self.password = hashed",
        "{ user, password: hash2word\n}"
            .split("2word")
            .next()
            .unwrap(),
        "password: string\nuser: string",
        "  password: required\n",
        "password: undefined",
        "password: Passwort",
        "Passwort: erforderlich",
        "keytool -storepass changeit",
        "keytool -storepass $STOREPASS2",
        "password: Kennwort\nuser: Benutzer",
        "\"password\": \"Password\"",
        "\"password\": \"password\"",
        "\"password\": \"varchar\"",
        "\"password\": \"userPassword\"",
        "\"password\": \"INVALID\"",
        "\"password\": \"prod-db-credentials\"",
        "password: *alias",
        "password: &anchor",
        "password: &anchor1 x",
        "password: *default_pw_1",
        "DB_PASSWORD: *defaultPw1",
        "password: !Ref DbParam1",
        "password=*pw1;",
        "let password = &args.pw1;",
        "keywords = ('break', 'del', 'pass', 'global', 'assert')",
        "result = \"PASS\",\n\"message\": 1",
        "the items identified by numbers and words",
        "postgres://localhost:5432/db?mail=a@b",
        "postgres://user:password@localhost/db?email=a@b.c",
        "http://localhost:8080/a@2x.png",
        "docker://registry:tag/a@sha256:12",
        "see password is guitar",
        "--password string   what it is",
        "password: \"$prefix$suffix2\"",
        "password: \"(none1)\"",
        "password: \"{user}:{pw1}\"",
        "password = flags1 & MASK",
        "password = flag1&Mask2",
        "password: $6$rounds=5000$saltsalt1$hAsH2",
        "password: $argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$Zk3vQ9xT7mB2nLp5",
        "curl -u \"joe:$PASS1\" h",
        "postgres://u:$PASS_1@h/d",
        "postgres://u:****@h/d",
        "private_key: ed25519.Ed25519PrivateKey, x: int",
        "private_key: X25519PrivateKey",
        "private_key: \"X25519PrivateKey\"",
        "private_key: ecdsa.P256PrivateKey",
        "secret_key: Secp256k1SecretKey",
        "password: Pbkdf2Sha256",
        "password: Uint8Array",
        "password: uint256",
        "secret: bytes32",
        "token: OAuth2Token",
        "secret: V1Secret",
        "password: Base64Str",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:MyTestSecret-a1b2c3",
        "password: vault:secret/data/app1#password",
        "password: env:DB_PASSWORD2",
        "sed 's/password=.*/password=X/' f",
        "compgen -W \"user= password= scmVersion= \"",
        "opts=\"user= password= Version= \"",
    ] {
        assert_eq!(defaults(text), text);
    }
}

#[test]
fn a_uuid_is_a_secret_where_its_name_says_so() {
    let id = "3f2b8c1e-94d7-4c0a-b6e5-7a1d9f08c3b2";
    for text in [
        format!("HEROKU_API_KEY={id}"),
        format!("{{\"password\": \"{id}\"}}"),
        format!("password: {id}"),
        format!("client_secret = \"{id}\""),
        format!("curl -H \"X-Api-Key: {id}\" https://a.io"),
        format!("sshpass -p {id} ssh a"),
    ] {
        found(&text, id);
    }
    for text in [
        format!("session_key: {id}"),
        format!("\"cache_key\": \"{id}\""),
        format!("\"token\": \"{id}\""),
        format!("\"partition_key\": \"{id}\""),
        format!("\"password_id\": \"{id}\""),
        format!("api_key_id={id}"),
        format!("secret_name = \"{id}\""),
    ] {
        assert_eq!(defaults(&text), text);
    }
}

#[test]
fn a_path_is_no_secret_key() {
    for text in [
        "aws_secret_access_key = /Users/JohnDoe/Projects/MyApp/SecretKeyFile",
        "SECRET_KEY=/Library/ApplicationSupport/KeyStores/MainSecretKey",
        "\"private_key\": \"/home/MaxMuster/Dev/AppServer/Config/PrivateKey\"",
    ] {
        assert_eq!(defaults(text), text);
    }
}
