//! Values that are text where nothing else can be, and code that looks like it.

use super::*;

/// The secret is gone, and what is around it stays, also in JSON.
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
    ] {
        assert_eq!(defaults(text), text);
    }
}
