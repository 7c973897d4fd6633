import { describe, expect, it } from '@jest/globals';
import * as domains from './domains.js';
import { runLoop, type TestTool } from './loop.js';
import { orderDesk } from './order-desk.js';

/** `text` is the answer's beginning or a pattern in it. */
type Case = readonly [
  prompt: string,
  tools: readonly TestTool[],
  calls: readonly string[],
  text: string | RegExp,
];

const {
  airline,
  bank,
  calculator,
  calendar,
  catalog,
  helpDesk,
  home,
  library,
  school,
  shop,
  staff,
  warehouse,
  weather,
} = domains;
const flightSearch = 'flights__search {"origin":"Berlin","destination":"Rome","date":"2026-05-01"}';
const trip = 'from Berlin to Rome on 2026-05-01';

const cases: readonly Case[] = [
  [
    'Is the book "Dune" available?',
    library,
    ['library__findBooks {"title":"Dune"}', 'book_b9_getAvailability {}'],
    "Dune's availability: yes.",
  ],
  [
    'find dune',
    library,
    ['library__findBooks {"title":"dune"}'],
    "Dune's author is Frank Herbert.",
  ],
  [
    'Reserve Dune for member m-7',
    library,
    ['library__findBooks {"title":"Dune"}', 'book_b9_reserve {"memberId":"m-7"}'],
    /^Done: reserve Dune\./,
  ],
  [
    'Register a member Ada Lovelace with ada@example.com',
    library,
    ['library__addMember {"name":"Ada Lovelace","email":"ada@example.com"}'],
    /^Done: add member\. Result: id m-1/,
  ],
  [
    "What is E42's vacation balance?",
    staff,
    ['hr__lookUpEmployee {"employeeId":"E42"}', 'employee_E42_getVacationBalance {}'],
    "Ada Byron's vacation balance: days 12.",
  ],
  [
    'Which department is E42 in?',
    staff,
    ['hr__lookUpEmployee {"employeeId":"E42"}'],
    "Ada Byron's department is Research.",
  ],
  [
    'Will it rain in Paris tomorrow?',
    weather,
    ['weather__forecast {"city":"Paris","day":"tomorrow"}'],
    /condition rain, temperature 14\.$/,
  ],
  [
    'Compare the weather in Paris and Berlin today',
    weather,
    [
      'weather__forecast {"city":"Paris","day":"today"}',
      'weather__forecast {"city":"Berlin","day":"today"}',
    ],
    /^The forecast for Paris.*\nThe forecast for Berlin/,
  ],
  [
    'What is the weather in Paris?',
    weather,
    [],
    'For “forecast” I need `day` (one of today, tomorrow). Please tell me.',
  ],
  ['What is 12 times 7?', calculator, ['calc__multiply {"a":12,"b":7}'], / is 84\.$/],
  ['Divide 10 by 4', calculator, ['calc__divide {"a":10,"b":4}'], / is 2\.5\.$/],
  [
    'Add 3 of product p-7 to cart c1',
    shop,
    ['carts__getCart {"cartId":"c1"}', 'cart_c1_addItem {"productId":"p-7","quantity":3}'],
    /^Done: add item for cart c1\./,
  ],
  [
    'What is in cart c1?',
    shop,
    ['carts__getCart {"cartId":"c1"}', 'cart_c1_getContents {}'],
    "Content p-1's quantity is 1.",
  ],
  [
    'Add p-7 to cart c1',
    shop,
    ['carts__getCart {"cartId":"c1"}', 'catalog__getProduct {"productId":"p-7"}'],
    'For “add item” I need `quantity`. Please tell me.',
  ],
  [
    'Turn off the light in the kitchen',
    home,
    ['home__setLight {"room":"kitchen","on":false}'],
    /^Done: set light/,
  ],
  [
    'Turn on the light in the hall with brightness 40',
    home,
    ['home__setLight {"room":"hall","on":true,"brightness":40}'],
    /brightness 40\.$/,
  ],
  [
    'What is the temperature in the living room?',
    home,
    ['home__getTemperature {"room":"living_room"}'],
    /is 21\.5 °C\.$/,
  ],
  [
    'Create an event "Team lunch" on 2026-03-01 with bob@example.com and eve@example.org',
    calendar,
    ['calendar__createEvent {"title":"Team lunch","date":"2026-03-01"}'],
    /^Done: create event\./,
  ],
  [
    'What events do I have between 2026-03-01 and 2026-03-31?',
    calendar,
    ['calendar__listEvents {"from":"2026-03-01","to":"2026-03-31"}'],
    "Standup's date is 2026-03-02.",
  ],
  [
    'Create an event called Review',
    calendar,
    [],
    'For “create event” I need `date`. Please tell me.',
  ],
  [
    `Book flight LH123 ${trip} for 2 passengers in premium economy`,
    airline,
    [flightSearch, 'flight_LH123_book {"passengers":2,"cabin":"premium_economy"}'],
    /^Done: book flight LH123\./,
  ],
  [
    `How many free seats does flight AZ7 ${trip} have?`,
    airline,
    [flightSearch, 'flight_AZ7_getSeats {}'],
    "Flight AZ7's seats are 42.",
  ],
  [
    `Book a flight ${trip} for 2 passengers`,
    airline,
    [flightSearch],
    'For “book” I need to know which flight you mean: LH123 or AZ7?',
  ],
  [
    'Close the issue "Printer on fire"',
    helpDesk,
    ['support__findIssues {"text":"Printer on fire"}', 'issue_h1_close {}'],
    'Done: close Printer on fire.',
  ],
  [
    'Which comments has the issue "Mouse broken"?',
    helpDesk,
    ['support__findIssues {"text":"Mouse broken"}', 'issue_h2_getComments {}'],
    'I found no comments for Mouse broken.',
  ],
  [
    'What is the balance of account 12345?',
    bank,
    ['bank__getBalance {"accountNumber":12345}'],
    'The balance is 1234.50 USD.',
  ],
  [
    'Transfer 50 EUR from account 111 to account 222',
    bank,
    ['bank__transfer {"fromAccount":111,"toAccount":222,"amount":50,"currency":"EUR"}'],
    /^Done: transfer/,
  ],
  [
    'How many units of SKU-9 are in the warehouse?',
    warehouse,
    ['get_stock_level {"sku":"SKU-9"}'],
    'The stock level for SKU-9 is 17.',
  ],
  [
    'reorder 20 units of SKU-9',
    warehouse,
    ['reorder_product {"sku":"SKU-9","units":20}'],
    /^Done: reorder product\./,
  ],
  [
    "What is Ana's grade in class 7b?",
    school,
    ['school__listStudents {"classId":"7b"}', 'student_s2_getGrade {}'],
    "Ana's grade is A-s2.",
  ],
  [
    'Show the grades of all students of class 7b',
    school,
    [
      'school__listStudents {"classId":"7b"}',
      'student_s1_getGrade {}',
      'student_s2_getGrade {}',
      'student_s3_getGrade {}',
    ],
    "Tim's grade is A-s1.\nAna's grade is A-s2.\nLee's grade is A-s3.",
  ],
  [
    'List all products',
    catalog,
    ['product__list {}'],
    'I found 2 results:\n- Desk lamp (p-1): stock 4',
  ],
  [
    'Which products are in stock?',
    catalog,
    ['product__list {"inStock":true}'],
    'I found 2 results',
  ],
  [
    'What does the desk lamp cost?',
    catalog,
    ['product__list {"search":"desk lamp"}'],
    "Desk lamp's price is 49.90 EUR.",
  ],
  [
    'Set the stock of product p-1 to 12',
    catalog,
    ['product__update {"id":"p-1","stock":12}'],
    'Done: update product.',
  ],
  [
    'Rename product p-1 to "Lamp"',
    catalog,
    ['product__update {"id":"p-1","name":"Lamp"}'],
    'Done: update product.',
  ],
  [
    'delete the office chair',
    catalog,
    ['product__list {"search":"office chair"}'],
    'For “destroy” I need `id`. Please tell me.',
  ],
];

describe('tools it has never seen', () => {
  it.each(cases)('%s', async (prompt, tools, calls, text) => {
    const run = await runLoop(prompt, tools);
    expect(run.calls).toEqual(calls);
    expect(run.text).toMatch(text);
  });
});

describe('all domains at once', () => {
  const everything = [...Object.values(domains).flat(), ...orderDesk];
  const ambiguous = new Set([
    'find dune',
    'Add p-7 to cart c1',
    'List all products',
    'What is 12 times 7?',
  ]);

  it.each(cases.filter(([prompt]) => !ambiguous.has(prompt)))(
    '%s',
    async (prompt, _tools, calls) => {
      const run = await runLoop(prompt, everything);
      expect(run.calls).toEqual(expect.arrayContaining([...calls]));
      expect(run.calls.length).toBeLessThanOrEqual(calls.length + 3);
    },
  );
});
