"""The pages of the service: Check, Clusters, Live, System.

    routes      the paths, and the layer between requests and the pages (its docstring has the rules of safety)
    backend     what the pages read of the service
    check_page, clusters_page, live_page
                the values that each page shows: no HTML, no translation
    rendering   templates, languages, themes; strings.toml has every sentence of the pages
    shown_text  foreign text, made harmless; what two texts have in common

The pages are HTML made by templates, which escape everything. They work without the script; the script draws charts and
fetches the page again, to replace the parts of it that change.
"""
