import type { ReactNode } from 'react';
import type { BeltTool } from '@toolloop/react';
import { useWords } from '../shell/console-context.js';
import { hrefOf } from '../shell/route.js';
import { Icon } from './icon.js';
import { grouped, nameOf, spaceOf } from './names.js';

/** The groups that are open from the start: an entity's list may bring dozens. */
const OPEN_GROUPS = 8;

/**
 * What the model can call at this point, by where it comes from; what is gone is struck, with the
 * reason.
 */
export function Belt({
  tools,
  isOpen = true,
}: {
  readonly tools: readonly BeltTool[];
  readonly isOpen?: boolean;
}): ReactNode {
  const { t } = useWords();
  const groups = grouped(tools, sourceOf);
  const here = tools.filter(({ gone }) => gone === undefined).length;
  return (
    <details className="belt" open={isOpen} aria-label={t('belt.title')}>
      <summary>
        <Icon name="belt" size={16} />
        <h2>{t('belt.title')}</h2>
        <span className="muted">{t('belt.count', { n: here })}</span>
      </summary>
      {tools.length === 0 && <p className="muted belt-empty">{t('belt.empty')}</p>}
      {[...groups].toReversed().map(([source, members], index) => (
        <details
          key={source}
          className={
            members.some(({ instanceId }) => instanceId !== undefined)
              ? 'belt-group entity'
              : 'belt-group'
          }
          open={index < OPEN_GROUPS}
        >
          <summary>
            <h3>{source}</h3>
            <span className="muted">{members.length}</span>
          </summary>
          <ul>
            {members.map((tool) => (
              <BeltRow key={tool.id} tool={tool} />
            ))}
          </ul>
        </details>
      ))}
    </details>
  );
}

function BeltRow({ tool: { id, gone } }: { readonly tool: BeltTool }): ReactNode {
  return (
    <li className={gone === undefined ? 'belt-tool' : 'belt-tool gone'} title={gone ?? id}>
      <a href={hrefOf('tools', id)}>{gone === undefined ? nameOf(id) : <s>{nameOf(id)}</s>}</a>
      {gone !== undefined && <small className="muted">{gone}</small>}
    </li>
  );
}

function sourceOf({ id, provider, instanceId }: BeltTool): string {
  if (provider === undefined) return nameOf(spaceOf(id));
  return instanceId === undefined ? provider : `${provider} ${instanceId}`;
}
