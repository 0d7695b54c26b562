import decklog = require('decklog');

const log: decklog.Log = decklog.open('./log');
const turn: decklog.Turn = log.turn('user', 'hi');
console.log(turn.id satisfies string, log.search('hi')[0]?.snippet);
