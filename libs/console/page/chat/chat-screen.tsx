import {
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
  type SubmitEvent,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import { ToolLoopHttpError } from '@toolloop/client';
import { isWebAddress } from '@toolloop/protocol';
import { type BeltTool, type RunPart, type RunView, type Turn, useObserved } from '@toolloop/react';
import { Belt } from '../parts/belt.js';
import { CallCard } from '../parts/call-card.js';
import { Icon } from '../parts/icon.js';
import { type Loaded, useLoaded } from '../parts/loaded.js';
import { RequestView } from '../parts/request-view.js';
import { Failed } from '../parts/states.js';
import { useConsole, useWords } from '../shell/console-context.js';
import { keepConversation, keptConversation, useDraft } from '../shell/kept.js';
import { hrefOf, rename } from '../shell/route.js';

/**
 * A conversation with the application: its questions, the calls that answer them, and what the
 * model can call now.
 */
export function ChatScreen({ named }: { readonly named: string | undefined }): ReactNode {
  const { thread, words, newThread } = useConsole();
  const { turns, status } = useObserved(thread);
  const { error, reload } = useKept(named, turns.length > 0);
  const last = turns.at(-1);
  const first = useFirstTools();
  const end = useRef<HTMLDivElement>(null);
  useAnnouncements(last?.run);
  useEffect(() => {
    end.current?.scrollIntoView({ block: 'end' });
  }, [turns.length, last?.run.lastSequence]);
  return (
    <div className="chat with-belt">
      <section className="thread" aria-label={words.t('nav.chat')}>
        <header className="bar-top">
          <h1>{words.t('nav.chat')}</h1>
          {turns.length > 0 && (
            <button type="button" className="button" onClick={newThread}>
              <Icon name="plus" size={16} /> {words.t('chat.new')}
            </button>
          )}
        </header>
        <div className="turns">
          {error && !isUnknown(error) && <Failed error={error} retry={reload} />}
          {turns.length === 0 && <Welcome />}
          {turns.map((turn) => (
            <TurnView key={turn.id} turn={turn} mayAskAnew={status !== 'answering'} />
          ))}
          <div ref={end} />
        </div>
        <Composer isAnswering={status === 'answering'} />
      </section>
      <Belt
        tools={last?.run.tools.length ? last.run.tools : first}
        isOpen={globalThis.innerWidth > 1020}
      />
    </div>
  );
}

/**
 * Keeps the id of the conversation in the address once it has begun, and reads what was said in one
 * that the address names: a page that is loaded again shows it.
 */
function useKept(named: string | undefined, hasBegun: boolean): Loaded<void> {
  const { thread, session } = useConsole();
  const { conversationId } = thread;
  useEffect(() => {
    if (!hasBegun) return;
    if (named === undefined) rename('chat', conversationId);
    keepConversation(session, conversationId);
  }, [session, conversationId, named, hasBegun]);
  const recall = useCallback(
    () =>
      [named, keptConversation(session)].includes(conversationId)
        ? thread.recall()
        : Promise.resolve(),
    [thread, conversationId, named, session],
  );
  return useLoaded(recall);
}

/**
 * Tells whether nothing is kept of the conversation for this person: it has not ended a run yet, or
 * is another's.
 */
function isUnknown(error: Error): boolean {
  return error instanceof ToolLoopHttpError && error.status === 404;
}

/** The tools with which a run would begin. */
function useFirstTools(): readonly BeltTool[] {
  const { client } = useConsole();
  const ask = useCallback(() => client.tools(), [client]);
  const { value } = useLoaded(ask);
  return useMemo(() => (value ?? []).map(({ id }) => ({ id, since: 0 })), [value]);
}

function Welcome(): ReactNode {
  const { words, session, place } = useConsole();
  const { t } = words;
  return (
    <div className="welcome">
      <span className="mark large" aria-hidden="true">
        <Icon name="spark" size={30} />
      </span>
      <h2>{t('chat.hello', { name: session.actor.name ?? session.actor.id ?? '' })}</h2>
      <p className="muted">{t('chat.lead', { title: place.title })}</p>
    </div>
  );
}

function TurnView({
  turn,
  mayAskAnew,
}: {
  readonly turn: Turn;
  readonly mayAskAnew: boolean;
}): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  const { run, error, isKept = false } = turn;
  return (
    <article className="turn">
      <Asked turn={turn} mayAskAnew={mayAskAnew} />
      <div className="answer">
        <RunParts run={run} />
        {run.status === 'running' && run.parts.length === 0 && <Thinking />}
        {run.status === 'starting' && !error && <Thinking />}
        {error && <Failed error={error} />}
        <RunOutcome run={run} />
        {run.runId !== undefined && (session.durable || !isKept) && (
          <a className="run-link" href={hrefOf('runs', run.runId)}>
            {t('chat.openRun')} <Icon name="open" size={14} />
          </a>
        )}
      </div>
    </article>
  );
}

/** A question, which can be answered anew, or asked in other words. */
function Asked({
  turn: { id, question },
  mayAskAnew,
}: {
  readonly turn: Turn;
  readonly mayAskAnew: boolean;
}): ReactNode {
  const { thread, words } = useConsole();
  const { t } = words;
  const [text, setText] = useState<string>();
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (text === undefined || text.trim() === '') return;
    setText(undefined);
    void thread.askAnew(id, text.trim());
  };
  if (text !== undefined && mayAskAnew)
    return (
      <form className="editing" onSubmit={submit}>
        <textarea
          rows={2}
          maxLength={8000}
          value={text}
          aria-label={t('chat.edit')}
          autoFocus
          onChange={({ target }) => setText(target.value)}
        />
        <div className="asked-actions">
          <button type="submit" className="button primary" disabled={text.trim() === ''}>
            {t('chat.send')}
          </button>
          <button type="button" className="button" onClick={() => setText(undefined)}>
            {t('chat.leave')}
          </button>
        </div>
      </form>
    );
  return (
    <>
      <div className="asked">
        <p dir="auto">{question}</p>
      </div>
      {mayAskAnew && (
        <div className="asked-actions">
          <button type="button" className="ghost" onClick={() => void thread.askAnew(id)}>
            {t('chat.again')}
          </button>
          <button type="button" className="ghost" onClick={() => setText(question)}>
            {t('chat.edit')}
          </button>
        </div>
      )}
    </>
  );
}

/** The parts that are shown at first, the latest: a long run has thousands. */
const PARTS_SHOWN = 60;

/** The parts of an answer in the order in which they came. */
export function RunParts({
  run,
  isLive = true,
}: {
  readonly run: RunView;
  readonly isLive?: boolean;
}): ReactNode {
  const { t } = useWords();
  const [most, setMost] = useState(PARTS_SHOWN);
  const hidden = Math.max(0, run.parts.length - most);
  return (
    <>
      {hidden > 0 && (
        <button type="button" className="button" onClick={() => setMost(most + PARTS_SHOWN)}>
          {t('chat.earlier', { n: hidden })}
        </button>
      )}
      {run.parts.slice(hidden).map((part) => (
        <Part key={`${part.kind} ${part.since}`} {...{ part, run, isLive }} />
      ))}
      <Citations citations={run.citations} />
    </>
  );
}

/** The citations that are shown: an answer may name thousands. */
const CITATIONS_SHOWN = 20;

/**
 * The sources that the model names, each once. Beside a title, which anyone may have written,
 * stands the host to which its link leads.
 */
function Citations({ citations }: Pick<RunView, 'citations'>): ReactNode {
  const { t } = useWords();
  const sources = useMemo(
    () => [
      ...new Map(
        citations.map((one) => [one.url ?? one.source ?? one.title ?? one.quote, one]),
      ).entries(),
    ],
    [citations],
  );
  if (sources.length === 0) return null;
  return (
    <section className="citations small" aria-label={t('chat.citations')}>
      <p className="muted">{t('chat.citations')}</p>
      <ol>
        {sources.slice(0, CITATIONS_SHOWN).map(([key, citation]) => (
          <li key={key}>
            <Cited {...citation} />
          </li>
        ))}
      </ol>
      {sources.length > CITATIONS_SHOWN && (
        <p className="muted">{t('result.more', { n: sources.length - CITATIONS_SHOWN })}</p>
      )}
    </section>
  );
}

function Cited({ url, title, source, quote }: RunView['citations'][number]): ReactNode {
  const words = title ?? source ?? url ?? quote;
  if (!isWebAddress(url) || !URL.canParse(url)) return <bdi>{words}</bdi>;
  const { href, host } = new URL(url);
  return (
    <>
      <a href={href} target="_blank" rel="noreferrer">
        <bdi>{words}</bdi>
      </a>{' '}
      <bdi className="muted">{host}</bdi>
    </>
  );
}

function Part({
  part,
  run,
  isLive,
}: {
  readonly part: RunPart;
  readonly run: RunView;
  readonly isLive: boolean;
}): ReactNode {
  const { t } = useWords();
  switch (part.kind) {
    case 'call': {
      const inner = part.subRunId === undefined ? undefined : run.subRuns[part.subRunId];
      return (
        <>
          <CallCard {...{ call: part, run, isLive }} />
          {inner && (
            <div className="sub-run">
              <RunParts run={inner} isLive={isLive} />
            </div>
          )}
        </>
      );
    }
    case 'text':
      return (
        <p className="text" dir="auto">
          {part.text}
        </p>
      );
    case 'reasoning':
      return (
        <details className="reasoning">
          <summary>{t('chat.reasoning')}</summary>
          <p dir="auto">{part.text}</p>
        </details>
      );
    default:
      return (
        <p className="warning-line">
          <Icon name="alert" size={15} /> {part.text}
        </p>
      );
  }
}

/**
 * The end of a run where it is none of the usual: what it waits for, what it ran out of, how it
 * failed.
 */
export function RunOutcome({ run }: { readonly run: RunView }): ReactNode {
  const { t } = useWords();
  const { finishReason, rehearsal, report, error, finishDetail, status } = run;
  return (
    <>
      {rehearsal && <RequestView open={{ kind: 'rehearsal', request: rehearsal }} />}
      {report && report.status !== 'waiting' && (
        <p className="muted small">{t('run.rehearsal', { status: report.status })}</p>
      )}
      {status === 'ended' && finishReason !== undefined && finishReason !== 'stop' && (
        <p className={finishReason === 'error' ? 'problem' : 'warning-line'}>
          <Icon name="alert" size={15} />{' '}
          {error?.message ?? finishDetail ?? t(`finish.${finishReason}`)}
        </p>
      )}
    </>
  );
}

function Thinking(): ReactNode {
  const { t } = useWords();
  return (
    <p className="thinking">
      <span className="dot" />
      <span className="dot" />
      <span className="dot" />
      <span className="unseen">{t('chat.thinking')}</span>
    </p>
  );
}

/** The message that a person is writing, with the field in which it stands. */
interface UnsentMessage {
  readonly text: string;
  readonly setText: (text: string) => void;
  readonly isRehearsal: boolean;
  readonly setRehearsal: (isRehearsal: boolean) => void;
  readonly field: RefObject<HTMLTextAreaElement | null>;
  /** Does nothing while there is no text, or an answer is on its way. */
  readonly send: () => void;
}

function useUnsentMessage(isAnswering: boolean): UnsentMessage {
  const { thread, session } = useConsole();
  const [text, setText] = useDraft(session);
  const [isRehearsal, setRehearsal] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const send = (): void => {
    if (text.trim() === '' || isAnswering) return;
    void thread.ask(text.trim(), { rehearse: isRehearsal });
    setText('');
    field.current?.focus();
  };
  return { text, setText, isRehearsal, setRehearsal, field, send };
}

function Composer({ isAnswering }: { readonly isAnswering: boolean }): ReactNode {
  const { t } = useWords();
  const { text, setText, isRehearsal, setRehearsal, field, send } = useUnsentMessage(isAnswering);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    send();
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <form className="composer" onSubmit={submit}>
      <textarea
        ref={field}
        rows={2}
        value={text}
        maxLength={8000}
        aria-label={t('chat.message')}
        placeholder={t('chat.placeholder')}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={press}
      />
      <div className="composer-foot">
        <label className="check" title={t('chat.rehearseHint')}>
          <input
            type="checkbox"
            role="switch"
            checked={isRehearsal}
            onChange={({ target }) => setRehearsal(target.checked)}
          />{' '}
          {t('chat.rehearse')}
        </label>
        <ComposerButton isAnswering={isAnswering} isEmpty={text.trim() === ''} />
      </div>
    </form>
  );
}

interface ComposerButtonProps {
  readonly isAnswering: boolean;
  readonly isEmpty: boolean;
}

/**
 * Sends, or stops what was sent. It is one element of the page, which keeps the focus when its
 * meaning changes.
 */
function ComposerButton({ isAnswering, isEmpty }: ComposerButtonProps): ReactNode {
  const { thread, words } = useConsole();
  const { t } = words;
  return isAnswering ? (
    <button
      type="button"
      className="button round"
      onClick={() => void thread.stop()}
      aria-label={t('chat.stop')}
    >
      <Icon name="stop" />
    </button>
  ) : (
    <button
      type="submit"
      className="button primary round"
      disabled={isEmpty}
      aria-label={t('chat.send')}
    >
      <Icon name="send" />
    </button>
  );
}

/**
 * Says each finished sentence of an answer once, and what it waits for: a letter at a time no one
 * can listen to.
 */
function useAnnouncements(run: RunView | undefined): void {
  const { announce, words } = useConsole();
  const last = run?.parts.findLast((part) => part.kind === 'text');
  const text = last?.kind === 'text' ? last.text : '';
  const sentence = text
    .match(/[^.!?]+[.!?]+(?=\s|$)/g)
    ?.at(-1)
    ?.trim();
  const waitsFor = run?.status === 'waiting' ? run.waitingFor : undefined;
  useEffect(() => {
    if (waitsFor) announce(words.t(`waiting.${waitsFor}`));
    else if (sentence !== undefined) announce(sentence);
  }, [sentence, waitsFor, announce, words]);
}
