import { type ReactNode, useCallback, useEffect, useRef, useState } from 'react';
import { useObserved } from '@toolloop/react';
import { Icon, type IconName } from '../parts/icon.js';
import type { WordKey } from '../words/words.js';
import { useChange, useConsole } from './console-context.js';
import { Palette } from './palette.js';
import { go, hrefOf, type Route } from './route.js';
import type { Session } from './session.js';
import { choose, nextTheme, useSettings } from './settings.js';

interface Section {
  readonly id: string;
  readonly icon: IconName;
  readonly word: WordKey;
  /** The key that leads there behind `g`. */
  readonly letter: string;
  /** The permission without which it is locked. */
  readonly needs?: string;
  /** Tells whether the application has what it shows. @default it has */
  readonly isThere?: (session: Session) => boolean;
}

const SECTIONS: readonly Section[] = [
  { id: 'chat', icon: 'chat', word: 'nav.chat', letter: 'c' },
  { id: 'runs', icon: 'runs', word: 'nav.runs', letter: 'r' },
  { id: 'inbox', icon: 'inbox', word: 'nav.inbox', letter: 'i' },
  { id: 'tools', icon: 'tools', word: 'nav.tools', letter: 't' },
  { id: 'why', icon: 'why', word: 'nav.why', letter: 'w', needs: 'explain' },
  { id: 'policies', icon: 'policy', word: 'nav.policies', letter: 'p', needs: 'policy' },
  { id: 'sources', icon: 'source', word: 'nav.sources', letter: 's', needs: 'sources' },
  { id: 'as', icon: 'eye', word: 'nav.as', letter: 'v', needs: 'viewAs' },
  {
    id: 'evals',
    icon: 'evals',
    word: 'nav.evals',
    letter: 'e',
    isThere: ({ evaluations }) => evaluations.results,
  },
  { id: 'usage', icon: 'usage', word: 'nav.usage', letter: 'u' },
  { id: 'audit', icon: 'audit', word: 'nav.audit', letter: 'a', needs: 'audit' },
];

/** The sections that this application has. */
export function sectionsOf(session: Session): readonly Section[] {
  return SECTIONS.filter(({ isThere = () => true }) => isThere(session));
}

/** What surrounds every screen: where one can go, who one is, and the palette. */
export function Frame({
  route,
  children,
}: {
  readonly route: Route;
  readonly children: ReactNode;
}): ReactNode {
  const { words, session, place } = useConsole();
  const [isOpen, setOpen] = useState(false);
  useKeys(useCallback(() => setOpen(true), []));
  const { t } = words;
  const name = session.actor.name ?? session.actor.id ?? '?';
  return (
    <div className="frame">
      <a className="skip" href="#main" onClick={(event) => skipTo(event, '#main')}>
        {t('nav.skip')}
      </a>
      <nav className="nav" aria-label={t('nav.label')}>
        <div className="brand">
          <span className="mark" aria-hidden="true">
            <Icon name="spark" size={18} />
          </span>
          <span className="brand-name">{place.title}</span>
        </div>
        <ul>
          {sectionsOf(session).map((section) => (
            <NavItem key={section.id} section={section} isHere={route.section === section.id} />
          ))}
        </ul>
        <div className="nav-foot">
          <button type="button" className="nav-link" onClick={() => setOpen(true)}>
            <Icon name="search" />
            <span>{t('palette.open')}</span>
            <kbd>⌘K</kbd>
          </button>
          <Look />
          <div className="me" title={session.actor.roles.join(', ')}>
            <span className="avatar" aria-hidden="true">
              {name.slice(0, 1).toUpperCase()}
            </span>
            <span className="me-words">
              <strong>{name}</strong>
              <small>{[session.tenant, ...session.actor.roles].join(' · ')}</small>
            </span>
            <SignOut />
          </div>
        </div>
      </nav>
      <main id="main" className="main" tabIndex={-1}>
        {children}
      </main>
      {isOpen && <Palette onClose={() => setOpen(false)} />}
    </div>
  );
}

function NavItem({
  section: { id, icon, word, needs },
  isHere,
}: {
  readonly section: Section;
  readonly isHere: boolean;
}): ReactNode {
  const { words, session } = useConsole();
  const isLocked = needs !== undefined && !session.may.includes(needs);
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    // in a narrow window they lie in one line
    if (isHere) link.current?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [isHere]);
  return (
    <li className={`nav-${id}`}>
      <a
        ref={link}
        className="nav-link"
        href={hrefOf(id)}
        aria-current={isHere ? 'page' : undefined}
      >
        <Icon name={icon} />
        <span>{words.t(word)}</span>
        {isLocked && <Icon name="lock" size={14} />}
        {id === 'inbox' && <InboxCount />}
      </a>
    </li>
  );
}

/** The number of requests that this person can answer. */
function InboxCount(): ReactNode {
  const { pending, words, feed } = useConsole();
  useEffect(() => pending.watch(60_000), [pending]);
  useChange(
    'inbox',
    useCallback(() => void pending.refresh(), [pending]),
  );
  const { requests } = useObserved(pending);
  const before = useRef(0);
  useEffect(() => {
    if (requests.length < before.current) feed.tellOthers('inbox');
    before.current = requests.length;
  }, [feed, requests]);
  const open = requests.filter(({ mayAnswer }) => mayAnswer !== false).length;
  if (open === 0) return null;
  return (
    <span className="count" aria-label={words.t('inbox.waiting', { n: open })}>
      {words.number(open)}
    </span>
  );
}

function Look(): ReactNode {
  const { words } = useConsole();
  const settings = useSettings();
  const { t } = words;
  return (
    <div className="look">
      <button
        type="button"
        className="ghost"
        onClick={() => choose({ theme: nextTheme(settings) })}
        aria-label={`${t('look.theme')}: ${t(`look.${settings.theme}`)}`}
      >
        <Icon name="sun" size={16} />
        <span>{t(`look.${settings.theme}`)}</span>
      </button>
      <button
        type="button"
        className="ghost"
        onClick={() => choose({ language: settings.language === 'en' ? 'de' : 'en' })}
        title={t('look.language')}
        lang={settings.language === 'en' ? 'de' : 'en'}
      >
        {settings.language === 'en' ? 'Deutsch' : 'English'}
      </button>
    </div>
  );
}

function SignOut(): ReactNode {
  const { words, session, signOut } = useConsole();
  if (session.csrf === undefined) return null;
  return (
    <button
      type="button"
      className="ghost round"
      onClick={signOut}
      aria-label={words.t('signIn.leave')}
      title={words.t('signIn.leave')}
    >
      <Icon name="out" size={16} />
    </button>
  );
}

function skipTo(event: { preventDefault(): void }, selector: string): void {
  event.preventDefault();
  document.querySelector<HTMLElement>(selector)?.focus();
}

/**
 * The keys of the whole page: ⌘K or Ctrl-K for the palette, `g` and a letter for a section. None of
 * them while one writes.
 */
function useKeys(openPalette: () => void): void {
  useEffect(() => {
    let isBehindG = false;
    const press = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() === 'k' && (event.metaKey || event.ctrlKey)) {
        event.preventDefault();
        openPalette();
        return;
      }
      if (isWriting(event)) return;
      const section = isBehindG ? SECTIONS.find(({ letter }) => letter === event.key) : undefined;
      isBehindG = event.key === 'g';
      if (section) go(section.id);
      if (event.key === '?') openPalette();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [openPalette]);
}

/** A box that one ticks takes no letters. */
const WRITTEN =
  'input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], dialog';

/** Tells whether a key belongs to a field in which one writes, to a dialog or to the browser. */
export function isWriting({ target, metaKey, ctrlKey, altKey }: KeyboardEvent): boolean {
  const isField = target instanceof HTMLElement && target.closest(WRITTEN) !== null;
  return isField || metaKey || ctrlKey || altKey;
}
