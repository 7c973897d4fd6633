import { type ReactNode, useCallback, useEffect, useMemo, useState } from 'react';
import { useObserved } from '@toolloop/react';
import type { WaitingRequest } from '@toolloop/client';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { RequestView } from '../parts/request-view.js';
import { detailOf, groupOf, sentenceOf } from '../parts/request-words.js';
import { ShareBar } from '../parts/share-bar.js';
import { Failed, Loading, Notice } from '../parts/states.js';
import { useChange, useConsole } from '../shell/console-context.js';
import { isWriting } from '../shell/frame.js';
import { go, hrefOf } from '../shell/route.js';
import { Evidence, mayReadRun } from './evidence.js';

/**
 * Everything that waits: what this person may answer first, of it the riskiest, then what expires
 * soonest.
 */
function InboxScreen({ selected }: { readonly selected: string | undefined }): ReactNode {
  const { pending, words } = useConsole();
  const { requests, isLoading, error } = useObserved(pending);
  const refresh = useCallback(() => void pending.refresh(), [pending]);
  useEffect(refresh, [refresh]);
  useChange('inbox', refresh);
  const { sorted, chosen, goneId, show, onAnswered } = useChosen(requests, selected);
  useTriage(sorted, chosen);
  const { t } = words;
  return (
    <div className="inbox split">
      <section className="list" aria-label={t('nav.inbox')}>
        <header className="bar-top">
          <h1>{t('nav.inbox')}</h1>
          <p className="muted keys">{t('inbox.keys')}</p>
        </header>
        {error && <Failed error={error} retry={refresh} />}
        {isLoading && <Loading />}
        {!isLoading && !error && sorted.length === 0 && (
          <Notice icon="check" title={t('inbox.empty')}>
            {t('inbox.emptyLead')}
          </Notice>
        )}
        <ul className="rows">
          {sorted.slice(0, MOST_SHOWN).map((entry) => (
            <Row
              key={entry.id}
              entry={entry}
              isChosen={entry === chosen}
              siblings={groupOf(entry, sorted).length}
            />
          ))}
        </ul>
        {sorted.length > MOST_SHOWN && (
          <p className="muted">{t('result.more', { n: sorted.length - MOST_SHOWN })}</p>
        )}
      </section>
      {chosen && <Item key={chosen.id} entry={chosen} onAnswered={onAnswered} />}
      {goneId !== undefined && !isLoading && !error && (
        <Gone key={goneId} id={goneId} onNext={() => show(sorted[0]?.id)} />
      )}
    </div>
  );
}
export default InboxScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

/** The request that is shown, of all that wait. */
interface Chosen {
  /** What this person may answer first, of it the riskiest, then what expires soonest. */
  readonly sorted: readonly WaitingRequest[];
  readonly chosen: WaitingRequest | undefined;
  /**
   * The id of the request that was shown and waits no longer, unless this person has answered it
   * here.
   */
  readonly goneId: string | undefined;
  readonly show: (id: string | undefined) => void;
  readonly onAnswered: (ids: readonly string[]) => void;
}

/**
 * Keeps the request that is looked at where it is: a riskier one that comes, or the next one once
 * another person has answered, would be under the cursor of a person who is about to answer.
 */
function useChosen(requests: readonly WaitingRequest[], selected: string | undefined): Chosen {
  const [seen, setSeen] = useState<string>();
  const [answered, setAnswered] = useState<ReadonlySet<string>>(NONE);
  const sorted = useMemo(
    () =>
      requests
        .filter(({ id }) => !answered.has(id))
        .toSorted((a, b) => riskOf(b) - riskOf(a) || expiryOf(a) - expiryOf(b)),
    [requests, answered],
  );
  const named = selected ?? seen;
  const wanted = named !== undefined && answered.has(named) ? undefined : named;
  const chosen = wanted === undefined ? sorted[0] : sorted.find(({ id }) => id === wanted);
  const chosenId = chosen?.id;
  useEffect(() => (chosenId === undefined ? undefined : setSeen(chosenId)), [chosenId]);
  const show = (id: string | undefined): void => {
    setSeen(id);
    go('inbox', ...(id === undefined ? [] : [id]));
  };
  const onAnswered = (ids: readonly string[]): void => {
    setAnswered((before) => new Set([...before, ...ids]));
    show(undefined);
  };
  return { sorted, chosen, goneId: chosen ? undefined : wanted, show, onAnswered };
}

const NONE: ReadonlySet<string> = new Set();

/** In the place of a request that waits no longer: who has answered it, and the way to the next. */
function Gone({ id, onNext }: { readonly id: string; readonly onNext: () => void }): ReactNode {
  const { client, words } = useConsole();
  const { value: { answer } = {} } = useLoaded(
    useCallback(() => client.approval(id), [client, id]),
  );
  return (
    <section className="item" role="status">
      <Notice icon="check" title={words.t('inbox.gone')}>
        {answer && <p>{words.t(`answered.${answer.decision}`, { by: answer.decidedBy })}</p>}
        <button type="button" className="button" onClick={onNext}>
          {words.t('inbox.next')}
        </button>
      </Notice>
    </section>
  );
}

const MOST_SHOWN = 100;
const TONES = { danger: 3, caution: 2, neutral: 1, positive: 0 } as const;

function riskOf({ mayAnswer, kind, request }: WaitingRequest): number {
  const tone = 'presentation' in request ? TONES[request.presentation?.tone ?? 'neutral'] : 1;
  return (
    (mayAnswer === false ? 0 : 100) + (kind === 'approval' || kind === 'rehearsal' ? 10 : 0) + tone
  );
}

function expiryOf({ request }: WaitingRequest): number {
  return Date.parse(request.expiresAt);
}

interface RowProps {
  readonly entry: WaitingRequest;
  readonly isChosen: boolean;
  /** The requests of its group, of which one decision can be taken. */
  readonly siblings: number;
}

function Row({ entry, isChosen, siblings }: RowProps): ReactNode {
  const { words } = useConsole();
  const { id, kind, request, requestedBy, mayAnswer } = entry;
  return (
    <li>
      <a href={hrefOf('inbox', id)} className="row" aria-current={isChosen ? 'true' : undefined}>
        <span className={`row-kind ${kind}`}>
          <Icon name={mayAnswer === false ? 'wait' : KIND_ICONS[kind]} size={17} />
        </span>
        <span className="row-words">
          <strong dir="auto">{sentenceOf(entry, words)}</strong>
          <small className="muted">
            {detailOf(entry) === '' ? '' : `${detailOf(entry)} · `}
            {words.t(`request.${kind}`)}
            {siblings > 1 ? ` · ${words.t('inbox.ofGroup', { n: siblings })}` : ''}
            {requestedBy === undefined ? '' : ` · ${requestedBy}`} · {words.ago(request.expiresAt)}
          </small>
        </span>
      </a>
    </li>
  );
}

const KIND_ICONS = {
  approval: 'audit',
  question: 'why',
  client: 'tools',
  rehearsal: 'play',
} as const;

interface ItemProps {
  readonly entry: WaitingRequest;
  readonly onAnswered: Chosen['onAnswered'];
}

function Item({ entry, onAnswered }: ItemProps): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  const { request, requestedBy, createdAt } = entry;
  const [total] = useState(
    () => expiryOf(entry) - Date.parse(createdAt ?? new Date().toISOString()),
  );
  const left = Math.max(0, expiryOf(entry) - Date.now());
  return (
    <section className="item" aria-label={sentenceOf(entry, words)} data-triage="">
      <header>
        <h2 dir="auto">{sentenceOf(entry, words)}</h2>
        <ul className="chips">
          <li className="chip">{t(`request.${entry.kind}`)}</li>
          {requestedBy !== undefined && (
            <li className="chip">{t('inbox.by', { by: requestedBy })}</li>
          )}
          {'declaredId' in request && <li className="chip code">{request.declaredId}</li>}
          {createdAt !== undefined && <li className="chip">{words.ago(createdAt)}</li>}
        </ul>
        <ShareBar share={total > 0 ? left / total : 0} label={t('inbox.timeLeft')} />
      </header>
      <RequestView open={entry} onAnswered={onAnswered} />
      {entry.kind === 'approval' && <Evidence entry={entry} request={entry.request} />}
      {mayReadRun(entry, session) && (
        <a className="run-link" href={hrefOf('runs', request.runId)}>
          {t('inbox.openRun')} <Icon name="open" size={14} />
        </a>
      )}
    </section>
  );
}

/** The fields of a decision to which a key leads. */
const FIELDS: Readonly<Record<string, string>> = {
  a: '[data-key=a]',
  d: '[data-key=d]',
  r: 'input[name=reason]',
  e: 'textarea[name=args]',
  t: 'fieldset.trust input',
  '.': 'input[name=also]',
};

/**
 * The keys of the inbox: `j` and `k` move, `a` goes to the yes and `d` to the no, so that Enter is
 * the second key of what cannot be undone; `r`, `e` and `t` go to the reason, the arguments and
 * what may be trusted, and a dot makes the decision one about all calls of the kind.
 */
function useTriage(sorted: readonly WaitingRequest[], chosen: WaitingRequest | undefined): void {
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (isWriting(event)) return;
      const step = { j: 1, k: -1 }[event.key];
      const next =
        step === undefined
          ? undefined
          : sorted[sorted.findIndex((entry) => entry === chosen) + step];
      if (next) go('inbox', next.id);
      const field = FIELDS[event.key];
      const target =
        field === undefined ? null : document.querySelector<HTMLElement>(`[data-triage] ${field}`);
      if (!target) return;
      event.preventDefault();
      target.focus();
      if (event.key === '.') target.click();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [sorted, chosen]);
}
