import { type ReactNode, useCallback, useMemo, useState } from 'react';
import { isJsonObject, type JsonObject, readLines } from './json-lines.js';
import { useLoaded } from '../parts/loaded.js';
import { Icon } from '../parts/icon.js';
import { textOf } from '../parts/names.js';
import { Failed, Loading, Locked } from '../parts/states.js';
import { VirtualList } from '../parts/virtual-list.js';
import { useConsole } from '../shell/console-context.js';

const ROW_HEIGHT = 40;
const MOST_LINES = 20_000;
/** Entries that are made while the others are read, such as that of reading them. */
const LATER_LINES = 1_000;

/** The audit of the tenant: searched, and its chain checked in the page. */
function AuditScreen(): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  return (
    <div className="page audit">
      <header className="bar-top">
        <h1>{t('nav.audit')}</h1>
      </header>
      {session.may.includes('audit') ? <Lines /> : <Locked permission="audit" />}
    </div>
  );
}
export default AuditScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

function Lines(): ReactNode {
  const { client, words, session } = useConsole();
  const { t } = words;
  const [wanted, setWanted] = useState('');
  const load = useCallback(async () => {
    const head = await client.request('GET /audit/head', {});
    const last = isJsonObject(head) && typeof head['sequence'] === 'number' ? head['sequence'] : 0;
    const lines = await readLines(
      await client.auditLines(Math.max(1, last - MOST_LINES + 1)),
      MOST_LINES + LATER_LINES,
    );
    return { lines, last, broken: await brokenAt(lines, head, session.tenant) };
  }, [client, session.tenant]);
  const { value, error, reload } = useLoaded(load);
  const shown = useMemo(() => filtered(value?.lines ?? [], wanted), [value, wanted]);
  if (error) return <Failed error={error} retry={reload} />;
  if (!value) return <Loading rows={6} />;
  return (
    <>
      <Chain lines={value.lines} last={value.last} broken={value.broken} />
      <label className="field inline">
        <span>{t('audit.search')}</span>
        <input type="search" value={wanted} onChange={({ target }) => setWanted(target.value)} />
      </label>
      <VirtualList
        items={shown}
        rowHeight={ROW_HEIGHT}
        label={t('nav.audit')}
        keyOf={({ hash }) => textOf(hash)}
      >
        {(line) => <Line line={line} />}
      </VirtualList>
    </>
  );
}

function filtered(lines: readonly JsonObject[], wanted: string): readonly JsonObject[] {
  const text = wanted.trim().toLowerCase();
  const found =
    text === '' ? lines : lines.filter((line) => JSON.stringify(line).toLowerCase().includes(text));
  return found.toReversed();
}

/**
 * Checks what can be checked without the key: the first entry follows from the tenant's name, the
 * numbers have no gap, each entry names the hash of the one before, and the head that of its own.
 * Returns the number of the first entry that does not, 0 for the head's.
 */
async function brokenAt(
  lines: readonly JsonObject[],
  head: unknown,
  tenant: string,
): Promise<number | undefined> {
  const [first] = lines;
  if (!first) return undefined;
  const before = first['sequence'] === 1 ? await genesisOf(tenant) : undefined;
  const broken = lines.find(({ sequence, previousHash }, index) => {
    const last = lines[index - 1];
    if (!last) return before !== undefined && previousHash !== before;
    return previousHash !== last['hash'] || Number(sequence) !== Number(last['sequence']) + 1;
  });
  if (broken) return Number(broken['sequence']);
  const isHeadThere =
    isJsonObject(head) &&
    lines.some(({ sequence, hash }) => sequence === head['sequence'] && hash === head['hash']);
  return isHeadThere ? undefined : 0;
}

/**
 * The hash that the first entry of a tenant names; undefined in a browser that has no hashes, as on
 * a page without TLS.
 */
async function genesisOf(tenant: string): Promise<string | undefined> {
  const { subtle } = globalThis.crypto as { readonly subtle?: SubtleCrypto };
  if (!subtle) return undefined;
  const hash = await subtle.digest(
    'SHA-256',
    new TextEncoder().encode(`toolloop audit ${JSON.stringify(tenant)}`),
  );
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

interface ChainProps {
  readonly lines: readonly JsonObject[];
  readonly last: number;
  readonly broken: number | undefined;
}

function Chain({ lines, last, broken }: ChainProps): ReactNode {
  const { t } = useConsole().words;
  const isWhole = broken === undefined;
  const said =
    lines.length < last
      ? t('audit.latest', { n: lines.length, of: last })
      : t('audit.whole', { n: lines.length });
  return (
    <div className={`chain ${isWhole ? 'whole' : 'broken'}`} role="status">
      <Icon name={isWhole ? 'audit' : 'alert'} size={20} />
      <div>
        <strong>
          {isWhole ? said : broken === 0 ? t('audit.headless') : t('audit.broken', { n: broken })}
        </strong>
        <p className="muted small">{t('audit.verify')}</p>
      </div>
    </div>
  );
}

function Line({ line }: { readonly line: JsonObject }): ReactNode {
  const { words } = useConsole();
  const { at, kind, declaredId, actorId, decision, status, action } = line;
  const said = isJsonObject(decision) ? decision['kind'] : (status ?? decision ?? action);
  return (
    <details className="event">
      <summary>
        <time className="muted small">{words.time(textOf(at))}</time>
        <span className="event-type">{textOf(kind)}</span>
        <span className="event-line">
          {[declaredId, said, actorId]
            .flatMap((part) => (part === undefined ? [] : [textOf(part)]))
            .join(' · ')}
        </span>
      </summary>
      <pre className="json">{JSON.stringify(line, null, 2)}</pre>
    </details>
  );
}
