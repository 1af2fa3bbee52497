"""What the steps of the fingerprint look for, whole and broken: the pieces that drawn texts are made of."""

from tests.core.adversarial import span

WHITE = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2002\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
INVISIBLE = "\x00\x07\x7f\x9f\xad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u202e\u2060\ufeff\ufe0f\ufff0\U000e0041"
SIGNS = "。，、！？；：…—·.,!?;:-_/\\|*~^'\"()[]{}<>《》【】「」（）［］％＆＠＃．／：＿－～＋＝+=%&@#$￥€°§©®™"
MARKS = "\u0301\u0316\u0308\u0327\u093c\u0e31\u0e49\u3099\u309a\uff9e\u20dd\u0f71\u1ab0\U0001d165\U0001e8d0"
EMOJI = (
    "😀", "👍🏽", "❤️", "👨‍👩‍👧", "🇨🇳", "🏴\U000e0067\U000e007f", "☀", "✂️", "⭐", "🀄", "🅰", "㊗️", "🤣" * 5,
    "🈚", "↔", "⎛⎝≥⏝⏝≤⎠⎞", "¯\\_(ツ)_/¯", "(╯°□°)╯︵┻━┻", "♥♥♥♥", "１️⃣", "\U0001f3fb", "\U0001faff", "\U0001f100",
)  # fmt: skip
HALVES = (
    "\ud83d", "\ude00", "\ud83c\udffb", "\udffb\ud83c", "\ud840\udc00", "\udbff\udfff", "\ud800", "\udfff",
)  # fmt: skip
ADDRESSES = (
    "http://t.cn/A6x", "https://www.example.com:80/a?b=c#d", "ftp://a.b/", "//cdn.net/x.js", "www.a.org",
    "WWW.Ａ.com", "a.cn", "example.NET/路径", "x_.cn/", "ｗｗｗ．ａ．ｃｎ", "http：//a.cn", "http://中文.cn",
    "a.com.cn", "a.comb", "1.cn", "a.b@c.com", "me@例子.cn", "a%+b@a-b.co.uk", "ａ＠ｂ．ｃｎ", "@张三",
    "回复@李四_1：", "a@b", "@@a", "@" + "长" * 31, "x" * 70 + "@a.cn", "tel:010-123", "mailto:a@b.cn",
    "file:///etc", "a.co\u200bm", "](http://a.cn/b)", "[a](b 'c')", '![图](x.png "t")', "](" + "x" * 1999 + ")",
    "http://", "www.", ".com", "://", "@.", "a@-.c", "http://a.cn。b", "b.org", "1.NET:80/?x", "c．ＯＲＧ", "d.com#",
    "x-y.org.", "中.net", "e://f",
)  # fmt: skip
MARKUP = (
    "<p>", "</p>", "<br/>", "<BR>", "<a href='http://a.cn'>", '<a b="<">', "<img src=x>", "<!-- c -->", "<!--",
    "-->", "<script>a</script>", "<3", "a<b", "a < b > c", "<" + "a" * 502 + ">", "<" + "a" * 501 + ">", "</", "<x",
    "<中>", "&nbsp;", "&amp;nbsp;", "&amp;amp;lt;p&amp;amp;gt;", "&lt;b&gt;", "&#20013;", "&#x4e2d;", "&#x1F600;",
    "&#0;", "&#55357;", "&#xD83D;&#xDE00;", "&copy", "&notit;", "&NotEqualTilde;", "&" + "a" * 31 + ";",
    "&#9999999;", "&;", "&quot;", "&zwj;", "&#128;", "&shy;", "&hellip;", "&AMP;", "&frac12;", "&fjlig;", "&#8203;",
    "<ruby>", "<rb>", "<rt>", "</rt>", "<rp>(", "<rtc>", "</ruby>", "<rt>" + "c" * 101 + "<",
    "&ast;&ast;", "&#x110000;", "<!-- " + "c" * 2000 + "-->",
)  # fmt: skip
NUMBERS = (
    "3.50", "2024-05-01", "12:30", "1,280", "13800138000", "13800138o", "l3800138O", "0", "007", "1/2", "-5", "1e9",
    "٣٤٥", "１２３", "①②③", "Ⅷ", "ⅷ", "½", "²", "𝟙𝟚", "९", "一百二十", "第3章", "5G", "iPhone15", "4s", "1" * 40,
    "3.", ".5", "1.2.3.4", "20％", "￥99.9", "v1", "channe1", "t0", "fr3e", "b33n", "a$$b", "c@sh", "l00k",
    "123a456", "1a2b3c",
)  # fmt: skip
SUBTITLES = (
    "WEBVTT", "WEBVTT\nKind: captions\n\n", "\n1\n", "\r\n\r\n2\r\n", "\n\nin-tro\n", "00:00:04,148 --> 00:00:08,296",
    "00:04.148-->00:08.296", " align:start", " X1:5", "[00:12.34]", "<00:00:05.000>", "[0:01.5 --> 0:02.5]", "0:01.5",
    "-->",
    "\n0:00:04.148,0:00:08.296\n", "\n00:00:04 --> 00:00:08\n", "Dialogue: 0,0:00:04.14,0:00:08.29,", "D,,0,0,0,,",
    "{\\i1}", "\\N", "[Script Info]\n", "\r\r\n",
)  # fmt: skip
QUOTES = (
    "> ", "\n> 好的", "\n>>> ", "\n> > ", "\n>_<", "\nOn 10:12 Ann <a@b.cn> wrote:\n", "在 10:12，a@b.cn 写道：\n",
    "[quote]", "[quote=a]", "[/QUOTE]", "<blockquote a>", "</blockquote>", "//@张三:", "||@a：", " RT @b: ",
    "\nFrom: a",     "\nSent: b", "\nTo: c", "\n发件人：a", "\n主题: b", "\n-----Original Message-----\n", "\n____\n",
    "\n引用 @a 的发言\n", "\nQuote: b:\n",
)  # fmt: skip
SPAM = (
    "w.e.i.x.i.n", "微 信 号", "微★信★号", "加-V-信", "a b c", "a...b...c", "哈哈哈哈哈哈", "!!!!!!", "aaaa",
    "ooooo", "。。。。", "аpp", "сhannel", "fоr", "ΑΒΓabc", "ⓐⓑⓒ", "🅰🅱", "🇦🇧🇨", "ｆｒｅｅ", "𝓯𝓻𝓮𝓮", "ﬁne", "ſtop",
    "ﷺ", "㎏", "㍿", "㋀", "℡", "ǆ", "加 v x：ａｂｃ①②③", "你 懂 的", "x + y = z", "x_x_x", "1 2 3 4 5",
    "微\u200b信", "薇❤信", "VX", "а" * 4, "ﾊﾝｶｸ",
)  # fmt: skip
SCRIPTS = (
    "ひらがなです、カタカナ", "カ゛ヒ゜", "กินข้าวแล้วหรือยัง", "ភាសាខ្មែរ", "हिन्दी में लिखा", "한국어 문장",
    "ᄒ\u1161\u11ab", "привет, мир", "Γειά σου", "ΣΊΣΥΦΟΣ", "السلام عليكم", "שָׁלוֹם", "Straße", "İstanbul",
    "naïve cafe\u0301", "Tiếng Việt", "မြန်မာ", "ລາວ", "བོད་ཡིག", "ⴰⵎⴰⵣⵉⵖ", "ᏣᎳᎩ", "ꙮ", "ﬀ", "ゟ", "ヿ", "㐀㐁",
    "\u9fd5\u9fd6", "\U00020000\U0002f800", "\ufa0e\uf900", "々〇〻", "ㄅㄆㄇ", "\U0001b000", "\ue000\uf8ff",
    "مُؤَسِّسَة ـ إلى ی ک ہ ۀ", "שָׁלוֹם װ ײ", "ܫܠܳܡܐ", "ދިވެހި", "ş ţ ŭ ʼ", "അവൻ", "⻓江⼤⻋", "e̵̡͍̾x̴̛̯́t̸͎̎", "q̶w̶", "a⃝", "ọ̀rẹ́",
    "\u0378\u0530", "\U0010ffff", "\uffff", "\ufffd", "\ua500\ua501\ua502\ua503\ua504", "Ａｐｐｌｅ", "ⅯⅯ", "ǅ",
)  # fmt: skip
SEGMENTER = (
    "南京市长江大桥", "研究生命起源", "结婚的和尚未结婚的", "乒乓球拍卖完了", "下雨天留客天", "发展中国家", "T恤",
    "卡拉OK", "A股", "B超", "进研研研权", "龘靐齉齾", "的的的的", "了一", "程序员祝海林和朱会震", "武汉市长江",
    "AA制", "PC机", "哆啦A梦", "一〇一",
)  # fmt: skip
TRADITIONAL = (
    "繁體中文", "乾隆", "乾淨", "著名", "看著", "后面", "後面", "頭髮", "發財", "臺灣", "裡面", "麵包", "隻身",
    "于是", "於是", "爲", "綫", "喫",
)  # fmt: skip
BLOCKS = (
    span((0x20, 0x7E)), span((0xA0, 0xFF)), span((0x100, 0x24F)), span((0x300, 0x36F)) + "aeo",
    span((0x370, 0x3FF)), span((0x400, 0x52F)), span((0x5D0, 0x5EA)), span((0x621, 0x652)), span((0x900, 0x97F)),
    span((0xE01, 0xE5B)), span((0xE81, 0xEDF)), span((0xF40, 0xFBC)), span((0x1000, 0x109F)),
    span((0x1100, 0x11FF)), span((0x1780, 0x17E9)), span((0x1E00, 0x1FFF)), span((0x2000, 0x206F)),
    span((0x2070, 0x218F)), span((0x2190, 0x2BFF)), span((0x2460, 0x24FF)), span((0x3000, 0x303F)),
    span((0x3041, 0x30FF)), span((0x3130, 0x33FF)), span((0x3400, 0x4DBF)), span((0x4E00, 0x9FFF)),
    span((0xA490, 0xA640)), span((0xAC00, 0xD7A3)), span((0xD800, 0xDFFF)), span((0xF900, 0xFAFF)),
    span((0xFB00, 0xFDFF)), span((0xFE00, 0xFFFF)), span((0x10000, 0x104FF)), span((0x1D100, 0x1D7FF)),
    span((0x1F000, 0x1FAFF)), span((0x20000, 0x20FFF)), span((0x2F800, 0x2FA1F)), span((0xE0000, 0xE01EF)),
    span((0x4E00, 0x4E30)), "的一是了我不在人",
)  # fmt: skip
ALPHABETS = (
    "comnetrgw./:](a@ \n好", "abolOL0134٣@$ .-_е①çす微信", "<>/!-abp \"='&;#x1", "0123456789.,:/-oOlI ",
    "&#x;ampltgq123", "哈嘿啊!！。 ", "a\u0301\u0316e\u00e9\u0344", "中文 \n\u3000\xa0\tかa1", "ab .*★-",
    "\ud83d\ude00\u200d\ufe0f👍", "aаеoοcсpр10",
)  # fmt: skip
POOLS = (
    *(tuple(one) for one in (WHITE, INVISIBLE, SIGNS, MARKS)),
    *(EMOJI, HALVES, ADDRESSES, MARKUP, NUMBERS, SUBTITLES, QUOTES, SPAM, SCRIPTS, SEGMENTER, TRADITIONAL),
)
"""Pieces of one kind, for each kind."""
