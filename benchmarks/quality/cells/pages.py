"""What stands around an article on a site: navigation, notices, links to other pages. All of own writing."""

from __future__ import annotations

from random import Random

_PHRASES = {
    "zh": (
        "首页 新闻 财经 科技 体育 娱乐 汽车 房产 教育 健康",
        "您当前的位置：首页 > 新闻中心 > 要闻 > 正文",
        "字号：大 中 小　打印本页　关闭窗口",
        "扫描二维码，用手机看新闻更方便",
        "版权声明：本站所载内容未经书面授权，任何单位和个人不得转载、摘编或以其他方式使用。",
        "本文仅代表作者个人观点，与本网站立场无关，读者请仅作参考，并自行承担全部责任。",
        "如发现稿件有误或侵犯了您的权益，请在三十日内与我们联系，我们会及时处理。",
        "分享到：微信 微博 空间 朋友圈 复制链接",
        "相关阅读：暑期出游热度不减，各地景区推出夜场；秋粮收购有序展开，农户收入稳中有升",
        "热门推荐：这座小城凭什么留住年轻人；老字号的新生意；高铁沿线的一天",
        "网友评论文明上网理性发言，请遵守相关法律法规，发言最多两百字",
        "关于我们 联系方式 广告服务 招聘信息 网站地图 意见反馈 法律顾问",
        "下载客户端，第一时间获取突发新闻、深度报道和独家视频",
        "举报电话与邮箱见页面底部，违法和不良信息请及时举报，我们将认真核实",
        "登录 注册 我的收藏 浏览记录 消息中心 退出",
        "上一篇：市民广场改造工程完工　下一篇：气温回升，周末适合出行",
        "点击排行：一周 一月 全年；编辑精选：图集 专题 直播 访谈",
        "本网通讯员供稿　值班编辑审核　技术支持由信息中心提供",
        "未成年人保护热线全天开通，网络谣言曝光台接受实名与匿名线索",
        "增值电信业务经营许可证　信息网络传播视听节目许可证　网络文化经营许可证",
        "订阅我们的早报，每天清晨用五分钟了解世界正在发生的变化",
        "感谢您的阅读，如果觉得文章有用，请点赞、收藏并转发给身边的朋友",
        "广告合作请致电商务部，软文投稿请发送至编辑部邮箱，稿件一经采用稿酬从优",
        "友情链接：政府门户 图书馆 博物馆 天气网 地图 火车票 挂号平台",
    ),
    "en": (
        "Home News Business Technology Sport Culture Travel Weather More",
        "You are here: Home / News / Local / Article",
        "Skip to main content. Open menu. Search this site.",
        "Share this story on social media, send it by e-mail or copy the link",
        "All rights reserved. No part of this page may be reproduced without written permission.",
        "The opinions expressed here are those of the author and not of this website.",
        "Sign up for our morning briefing and start the day with five stories that matter",
        "We use cookies to improve your experience. Accept all, reject all, or manage your choices.",
        "Related: how a small harbour town kept its library open through the winter",
        "Most read this week: the bridge that nobody wanted; what the new timetable means for you",
        "Comments are moderated. Please keep them civil and on topic, and report abuse.",
        "About us Contact Advertise Careers Privacy policy Terms of use Accessibility Sitemap",
        "Subscribe today and read without advertisements, cancel at any time",
        "Print this article Save for later Text size: small medium large",
        "Previous: council approves playground. Next: warm weekend expected along the coast.",
        "If you see an error on this page, tell our editors and we will correct it promptly.",
        "Follow our reporters, listen to the daily podcast, watch the evening programme again",
        "Download the app for breaking news alerts wherever you are",
        "Support independent journalism: every contribution, however small, helps our newsroom",
        "Log in Register My account Saved articles Newsletter preferences Log out",
        "Editors' picks: photographs of the month, long reads, quizzes and crosswords",
        "This website is published by a registered charity. Company details are in the imprint.",
        "Explore more topics: housing, schools, transport, health, environment, courts",
        "Advertisement. The story continues below. Thank you for reading.",
    ),
}


class Site:
    """The same lines around each of its articles."""

    def __init__(self, language: str, size: int, rng: Random) -> None:
        phrases = list(_PHRASES[language])
        rng.shuffle(phrases)
        whole = "\n".join(phrases)
        assert len(whole) >= size
        self._before, self._after = whole[: size // 2], whole[size // 2 : size]

    def page(self, body: str) -> str:
        return f"{self._before}\n{body}\n{self._after}"
