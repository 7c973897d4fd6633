import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import type { ListedTool } from '@toolloop/client';
import { Icon, type IconName } from '../parts/icon.js';
import { useConsole } from './console-context.js';
import { sectionsOf } from './frame.js';
import { go } from './route.js';
import { choose, nextTheme, useSettings } from './settings.js';

interface Command {
  readonly id: string;
  readonly icon: IconName;
  readonly text: string;
  readonly hint?: string;
  readonly act: () => void;
}

const MOST_SHOWN = 12;

/**
 * Everything that the keyboard can reach by its name: screens, tools, actions, and a run by its id.
 */
export function Palette({ onClose }: { readonly onClose: () => void }): ReactNode {
  const { words } = useConsole();
  const dialog = useRef<HTMLDialogElement>(null);
  const choice = useCommandChoice();
  useEffect(() => dialog.current?.showModal(), []);
  const run = (command: Command | undefined): void => {
    dialog.current?.close();
    command?.act();
  };
  return (
    <dialog
      ref={dialog}
      className="palette"
      onClose={onClose}
      aria-label={words.t('palette.label')}
    >
      <CommandField choice={choice} onRun={run} />
      <CommandList choice={choice} onRun={run} />
      {choice.commands.length === 0 && (
        <p className="muted palette-none">{words.t('palette.none')}</p>
      )}
    </dialog>
  );
}

/** The commands that match what is typed, one of which is chosen. */
interface CommandChoice {
  readonly typed: string;
  readonly commands: readonly Command[];
  readonly index: number;
  /** Chooses the first of the commands that match. */
  readonly type: (text: string) => void;
  /** Goes round at both ends. */
  readonly move: (step: number) => void;
}

function useCommandChoice(): CommandChoice {
  const [typed, setTyped] = useState('');
  const [index, setIndex] = useState(0);
  const commands = useCommands(typed);
  const type = (text: string): void => {
    setTyped(text);
    setIndex(0);
  };
  const move = (step: number): void =>
    setIndex((index + step + commands.length) % Math.max(1, commands.length));
  return { typed, commands, index, type, move };
}

interface CommandsProps {
  readonly choice: CommandChoice;
  readonly onRun: (command: Command | undefined) => void;
}

function CommandField({
  choice: { typed, commands, index, type, move },
  onRun,
}: CommandsProps): ReactNode {
  const { t } = useConsole().words;
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined && event.key !== 'Enter') return;
    event.preventDefault();
    if (step === undefined) onRun(commands[index]);
    else move(step);
  };
  return (
    <div className="palette-field">
      <Icon name="search" />
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={commands[index] && `command-${index}`}
        aria-label={t('palette.label')}
        placeholder={t('palette.placeholder')}
        value={typed}
        onKeyDown={press}
        onChange={({ target }) => type(target.value)}
      />
    </div>
  );
}

function CommandList({ choice: { commands, index }, onRun }: CommandsProps): ReactNode {
  const { t } = useConsole().words;
  return (
    <ul id="palette-list" role="listbox" aria-label={t('palette.label')}>
      {commands.map((command, position) => (
        <li
          key={command.id}
          id={`command-${position}`}
          role="option"
          aria-selected={position === index}
          onClick={() => onRun(command)}
        >
          <Icon name={command.icon} />
          <span>{command.text}</span>
          {command.hint !== undefined && <kbd>{command.hint}</kbd>}
        </li>
      ))}
    </ul>
  );
}

function useCommands(typed: string): readonly Command[] {
  const { words, client, session, newThread, signOut } = useConsole();
  const settings = useSettings();
  const [tools, setTools] = useState<readonly ListedTool[]>([]);
  useEffect(() => {
    client.tools().then(setTools, () => undefined); // without them the rest can still be found
  }, [client]);
  return useMemo(() => {
    const { t } = words;
    const acts: readonly Command[] = [
      ...sectionsOf(session).map(({ id, icon, word, letter }) => ({
        id,
        icon,
        text: t(word),
        hint: `g ${letter}`,
        act: () => go(id),
      })),
      { id: 'new', icon: 'plus', text: t('chat.new'), act: newThread },
      {
        id: 'theme',
        icon: 'sun',
        text: t('look.theme'),
        act: () => choose({ theme: nextTheme(settings) }),
      },
      {
        id: 'language',
        icon: 'why',
        text: t('look.language'),
        act: () => choose({ language: settings.language === 'en' ? 'de' : 'en' }),
      },
      { id: 'out', icon: 'out', text: t('signIn.leave'), act: signOut },
      ...tools.map(({ id, presentation }) => toolCommand(id, presentation?.label)),
    ];
    const wanted = typed.trim().toLowerCase();
    const found = acts.filter(({ id, text }) => `${text} ${id}`.toLowerCase().includes(wanted));
    return [...found, ...runCommand(typed.trim(), t('nav.runs'))].slice(0, MOST_SHOWN);
  }, [words, settings, tools, typed, session, newThread, signOut]);
}

function toolCommand(id: string, label: string | undefined): Command {
  return {
    id: `tool ${id}`,
    icon: 'tools',
    text: label === undefined ? id : `${label} (${id})`,
    act: () => go('tools', id),
  };
}

/** A run is found by its id alone: lists of them may be long. */
function runCommand(id: string, text: string): readonly Command[] {
  return /^[\w-]{12,}$/.test(id)
    ? [{ id: `run ${id}`, icon: 'runs', text: `${text}: ${id}`, act: () => go('runs', id) }]
    : [];
}
