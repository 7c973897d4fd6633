import type { ReactNode } from 'react';

const PATHS = {
  chat: 'M4 5.5h16v11H9.5L5 20v-3.5H4z',
  runs: 'M4 12h3l3-7 4 14 3-7h3',
  inbox: 'M4 13h4l1.5 3h5L16 13h4M4 13l2.5-8h11L20 13v6H4z',
  tools: 'M14.5 6.5a4 4 0 0 1 5-1l-2.6 2.6 1.4 1.4L21 7a4 4 0 0 1-5.4 4.9L8 19.5 4.5 16l7.6-7.6',
  usage: 'M5 20V11M12 20V4M19 20v-6',
  evals: 'M4.5 5.5h15M4.5 12h9M4.5 18.5h6M15 16.5l2.2 2.2 4-4.4',
  audit: 'M12 3.5 19 6v5.5c0 4.5-3 7.5-7 9-4-1.5-7-4.5-7-9V6zM9 12l2 2 4-4',
  policy: 'M6 3.5h9l4 4v13H6zM15 3.5v4h4M9.5 12h6M9.5 16h6',
  source: 'M9 4v5M15 4v5M6.5 9h11v3a5.5 5.5 0 0 1-11 0zM12 17.5V21',
  eye: 'M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12M12 14.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6',
  path: 'M6 6.5a2 2 0 1 0 0-.1M18 17.5a2 2 0 1 0 0-.1M8 6.5h5a3 3 0 0 1 0 6h-2a3 3 0 0 0 0 5h5',
  why: 'M12 20.5a8.5 8.5 0 1 0 0-17 8.5 8.5 0 0 0 0 17M9.7 9.5a2.4 2.4 0 1 1 3.3 2.2c-.7.3-1 .9-1 1.6M12 16.2v.1',
  check: 'M5 12.5 10 17.5 19.5 7',
  cross: 'M6.5 6.5l11 11M17.5 6.5l-11 11',
  wait: 'M12 7.5V12l3 2M12 20.5a8.5 8.5 0 1 0 0-17 8.5 8.5 0 0 0 0 17',
  lock: 'M7 11V8a5 5 0 0 1 10 0v3M5.5 11h13v9h-13z',
  alert: 'M12 4 21 19.5H3zM12 10v4.2M12 16.8v.1',
  plus: 'M12 5v14M5 12h14',
  send: 'M12 19.5V5M5.5 11 12 4.5 18.5 11',
  stop: 'M7 7h10v10H7z',
  open: 'M9 6l6 6-6 6',
  sun: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M5.6 18.4 7 17M17 7l1.4-1.4',
  out: 'M14 5H5v14h9M11 12h10M17.5 8.5 21 12l-3.5 3.5',
  search: 'M11 17.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13M16 16l4.5 4.5',
  belt: 'M4 8.5h16v10H4zM9 8.5V6a1.5 1.5 0 0 1 1.5-1.5h3A1.5 1.5 0 0 1 15 6v2.5M4 13h16',
  fork: 'M7 4v16M7 13c0-4 10-2 10-7V4M17 4l-2.5 2.5M17 4l2.5 2.5',
  undo: 'M9 5 4.5 9.5 9 14M5 9.5h9a5 5 0 0 1 0 10h-3',
  spark: 'M12 4l1.8 6.2L20 12l-6.2 1.8L12 20l-1.8-6.2L4 12l6.2-1.8z',
  play: 'M8 5.5v13l10.5-6.5z',
  more: 'M6 12v.1M12 12v.1M18 12v.1',
} as const;

export type IconName = keyof typeof PATHS;

/** A drawing beside a word, so that screen readers pass it over. */
export function Icon({
  name,
  size = 18,
}: {
  readonly name: IconName;
  readonly size?: number;
}): ReactNode {
  return (
    <svg
      className={`icon icon-${name}`}
      width={size}
      height={size}
      viewBox="0 0 24 24"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
