"""What a model is told about the kind of page that it writes: one document, and what it needs from addresses that it can name."""

from __future__ import annotations

from typing import Final

from ronda.wire.app_stream.parameters import Stack

_TAILWIND: Final = '<script src="https://cdn.tailwindcss.com"></script>'
_BABEL: Final = '<script src="https://unpkg.com/@babel/standalone@7.25.6/babel.min.js"></script>'
_ICONS: Final = (
    "For icons you may load Font Awesome: "
    '<link rel="stylesheet" href="https://cdnjs.cloudflare.com/ajax/libs/font-awesome/6.5.1/css/all.min.css">.'
)
_FONTS: Final = "Fonts may come from Google Fonts."

STACKS: Final[dict[Stack, str]] = {
    "html_css": (
        "Stack: plain HTML, CSS and JavaScript in one file. Styles go into a <style> element, scripts into <script>. "
        f"Use no CSS framework. {_ICONS} {_FONTS}"
    ),
    "html_tailwind": f"Stack: HTML with Tailwind CSS, loaded with {_TAILWIND}. {_ICONS} {_FONTS}",
    "react_tailwind": (
        "Stack: React with Tailwind CSS, in one HTML file that runs without a build. Load\n"
        '<script src="https://cdn.jsdelivr.net/npm/react@18.3.1/umd/react.development.js"></script>\n'
        '<script src="https://cdn.jsdelivr.net/npm/react-dom@18.3.1/umd/react-dom.development.js"></script>\n'
        f"{_BABEL}\n{_TAILWIND}\n"
        'and put the components into one <script type="text/babel"> that renders into <div id="root"> with '
        f"ReactDOM.createRoot. There are no modules: use React.useState and the like. {_ICONS} {_FONTS}"
    ),
    "bootstrap": (
        "Stack: Bootstrap 5, loaded with "
        '<link rel="stylesheet" href="https://cdn.jsdelivr.net/npm/bootstrap@5.3.3/dist/css/bootstrap.min.css"> and '
        '<script src="https://cdn.jsdelivr.net/npm/bootstrap@5.3.3/dist/js/bootstrap.bundle.min.js"></script>. '
        f"{_ICONS} {_FONTS}"
    ),
    "ionic_tailwind": (
        "Stack: Ionic with Tailwind CSS, in one HTML file that runs without a build. Load\n"
        '<script type="module" src="https://cdn.jsdelivr.net/npm/@ionic/core@8/dist/ionic/ionic.esm.js"></script>\n'
        '<script nomodule src="https://cdn.jsdelivr.net/npm/@ionic/core@8/dist/ionic/ionic.js"></script>\n'
        '<link rel="stylesheet" href="https://cdn.jsdelivr.net/npm/@ionic/core@8/css/ionic.bundle.css">\n'
        f"{_TAILWIND}\nIcons are ion-icon elements, with the module "
        f"https://cdn.jsdelivr.net/npm/ionicons@7/dist/ionicons/ionicons.esm.js. {_FONTS}"
    ),
    "vue_tailwind": (
        "Stack: Vue 3 with Tailwind CSS, in one HTML file that runs without a build. Load\n"
        '<script src="https://cdn.jsdelivr.net/npm/vue@3.5.13/dist/vue.global.js"></script>\n'
        f"{_TAILWIND}\n"
        f'and mount with Vue.createApp({{…}}).mount("#app"), the template standing in <div id="app">. {_ICONS} {_FONTS}'
    ),
}
