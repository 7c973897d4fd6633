/** The English this model knows: closed word classes and generic verbs, nothing of any one domain. */

const list = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Words that say nothing about which tool is meant. */
export const STOP_WORDS: ReadonlySet<string> = new Set([
  ...list(`a an the this that these those some any i me my mine we us our ours you your yours he him his she her hers it its they them
    their theirs who whom whose which what where when why how s t d m re ll ve`),
  ...list(`is are was were be been being am do does did doing have has had having can could will would shall should may might must ought`),
  ...list(`of in on at by for from to with because since until during while whether without within into onto about over under between than as and or but not no nor so if then else
    also too both each every all per via up down out off again there here just only very really please thanks thank hello hi hey ok okay
    yes now still already ever`),
  ...list(`get gets show shows give gives tell tells display fetch retrieve read view see let want wants need needs like know help say says saying
    look lookup using use me kindly go ahead don doesn didn isn aren won`),
  ...list(`many much more most less least other another same such one current currently anything something everything named called titled`),
]);

/** Verbs that ask for a search; they point at a search-like tool but ask for no answer of their own. */
export const SEARCH_VERBS: readonly string[] = list('find search list look lookup browse query locate discover');

/** Verbs a reading method's name begins with; they are no part of what it returns. */
export const READ_VERBS: readonly string[] = [
  ...SEARCH_VERBS,
  ...list('get show fetch read retrieve load view display give tell describe check compute calculate resolve open count'),
];

/** Verbs that say how to answer, not what to do. */
export const SAYING_VERBS: readonly string[] = list('compare explain summarise summarize sort report check describe outline');

/** Verbs that can open a command, so that a capital at the start of a sentence is not taken for a name. */
export const COMMON_VERBS: ReadonlySet<string> = new Set([
  ...READ_VERBS,
  ...list(`add append approve archive arrange ask assign attach begin book build buy call cancel change clear close compare confirm convert copy
    create deactivate decline define delete deliver disable divide draft drop edit email enable end enter estimate execute explain export
    file fill finish forward generate hire import increase insert install invite invoice issue join keep launch leave lock log mail
    make mark measure merge message move multiply name notify order pause pay place plan play post predict prepare print publish purchase
    put rate refund register reject release remind remove rename rent repeat replace reply report request reserve reset restart restore
    resume return revoke run save schedule sell send set share ship sign sort split start stop submit subscribe subtract sum summarise
    summarize switch sync tag take test text track transfer translate turn undo unlock update upload verify void wire withdraw write`),
]);

/** Verbs that ask for something to be done. */
export const DOING_VERBS: ReadonlySet<string> = new Set(
  [...COMMON_VERBS].filter((verb) => ![...READ_VERBS, ...SAYING_VERBS].includes(verb)),
);

/** Verbs of the same generic meaning; only these may stand for each other where something is changed. */
const ACTION_SYNONYMS: readonly (readonly string[])[] = [
  list('buy purchase order'),
  list('book reserve'),
  list('cancel abort revoke'),
  list('delete remove erase discard'),
  list('create make'),
  list('add insert append put'),
  list('update change edit modify set rename adjust'),
  list('send mail email message'),
  list('turn switch toggle set'),
  list('start begin launch'),
  list('stop end finish halt'),
];

/** Words of the same generic meaning, by which tools are found. */
const OTHER_SYNONYMS: readonly (readonly string[])[] = [
  SEARCH_VERBS,
  list('total sum overall'),
  list('average mean'),
  list('count number quantity'),
  list('price cost charge'),
  list('recent latest last newest'),
  list('status state'),
  list('location address place'),
  list('available stock'),
  list('item line'),
  list('divide division'),
  list('multiply multiplication times'),
  list('subtract subtraction difference minus'),
  list('add addition plus sum'),
];

export const SYNONYMS = { action: ACTION_SYNONYMS, all: [...ACTION_SYNONYMS, ...OTHER_SYNONYMS] };

/** Verbs that only carry the word behind them: to "issue a refund" is to refund. */
export const LIGHT_VERBS: ReadonlySet<string> = new Set(
  list('do make perform request submit issue create initiate process place file execute'),
);

/** Forms a suffix rule cannot reach. */
export const IRREGULAR: ReadonlyMap<string, string> = new Map(
  Object.entries({
    spent: 'spend',
    sent: 'send',
    bought: 'buy',
    paid: 'pay',
    payment: 'pay',
    shipment: 'ship',
    made: 'make',
    gave: 'give',
    given: 'give',
    found: 'find',
    took: 'take',
    taken: 'take',
    held: 'hold',
    sold: 'sell',
    left: 'leave',
    wrote: 'write',
    written: 'write',
    went: 'go',
    built: 'build',
    lent: 'lend',
    due: 'due',
    people: 'person',
    children: 'child',
    men: 'man',
    women: 'woman',
    news: 'news',
    series: 'series',
    status: 'status',
    address: 'address',
    less: 'less',
    availability: 'availabl',
  }),
);

export const NUMBER_WORDS: ReadonlyMap<string, number> = new Map(
  list('zero one two three four five six seven eight nine ten eleven twelve').map((word, index) => [word, index]),
);

export const MONTHS: readonly string[] = list('jan feb mar apr may jun jul aug sep oct nov dec');

/** Words that stand for a day without naming a date. */
export const DAY_WORDS: ReadonlySet<string> = new Set(
  list('today tomorrow yesterday tonight monday tuesday wednesday thursday friday saturday sunday weekend'),
);

export const PRONOUNS: ReadonlySet<string> = new Set(list('he him his she her hers it its they them their theirs this that these those'));
export const ALL_WORDS: ReadonlySet<string> = new Set(list('all each every both everyone everybody'));
export const LATEST_WORDS: ReadonlySet<string> = new Set(list('latest last newest recent'));
export const EARLIEST_WORDS: ReadonlySet<string> = new Set(list('oldest earliest first'));
export const NEGATIONS: ReadonlySet<string> = new Set(list("not never no without don't dont doesn't exclude excluding non"));
